"""`lake/purged.jsonl`: tombstones of what was erased: digests and reasons, no name and no text.

A tombstone is known by the hash of an address (run id and trace id), so that a source folder that is read again gives
the rollout no way back.
"""

from collections.abc import Iterable

import msgspec

from trace_flywheel.lake.files import replace_text
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.canonical import content_id

FILE = "purged.jsonl"


class Tombstone(msgspec.Struct, frozen=True, omit_defaults=True):
    """One erased rollout. `content` is the digest of the row that stood in the lake."""

    address: str
    run_id: str
    content: str
    reason: str
    row: str = ""
    """Exact hash of the training row that it gave: corpora forget rows that have it."""


def address_of(run_id: str, trace_id: str) -> str:
    """What a tombstone keeps of an address."""
    return content_id(["purged", run_id, trace_id])


def tombstones(lake: Lake) -> tuple[Tombstone, ...]:
    """All of them, in the order they were set. A damaged file raises `LakeError`."""
    path = lake.root / FILE
    try:
        lines = path.read_bytes().split(b"\n") if path.is_file() else []
        return tuple(msgspec.json.decode(line, type=Tombstone) for line in lines if line)
    except msgspec.DecodeError as error:
        raise LakeError(f"{path}: damaged ({error}); restore the file from a copy") from None


def purged_by_run(lake: Lake) -> dict[str, frozenset[str]]:
    """Addresses that must not come back, by run id."""
    found: dict[str, set[str]] = {}
    for stone in tombstones(lake):
        found.setdefault(stone.run_id, set()).add(stone.address)
    return {run_id: frozenset(addresses) for run_id, addresses in found.items()}


def erased_rows(lake: Lake) -> frozenset[str]:
    """Exact hashes of the rows that erased rollouts gave."""
    return frozenset(stone.row for stone in tombstones(lake) if stone.row)


def bury(lake: Lake, stones: Iterable[Tombstone]) -> None:
    """Add tombstones; one that stands already is not set twice."""
    there = tombstones(lake)
    known = {stone.address for stone in there}
    new = [stone for stone in stones if stone.address not in known]
    replace_text(lake.root / FILE, "".join(msgspec.json.encode(s).decode() + "\n" for s in (*there, *new)))
