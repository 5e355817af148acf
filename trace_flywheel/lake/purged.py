"""`lake/purged.jsonl`: tombstones of what was erased: digests and reasons, no name, no text and no value.

A rollout's tombstone is known by the hash of its address (run id and trace id) and by the digest of what it said, so
that neither the folder it was read from nor any copy of it, under whatever name, gives it a way back. A value's
tombstone is known by keyed fingerprints.

`root` is the lake's folder: who only asks what was erased loads no table library.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from trace_flywheel.lake.files import replace_text
from trace_flywheel.lake.fingerprints import Fingerprint, fingerprint, key_of
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.records.canonical import content_id

FILE = "purged.jsonl"
UNFINISHED = "purging"
"""Stands in the lake while an erasure is under way."""


class Tombstone(msgspec.Struct, frozen=True, omit_defaults=True):
    """One erased rollout, or one erased value."""

    address: str = ""
    run_id: str = ""
    content: str = ""
    """Digest of what the rollout said (`Conversation.said`), "" where it said nothing or its text was not known."""
    reason: str = ""
    row: str = ""
    """Exact hash of the training row that it gave: corpora forget rows that have it."""
    value: Fingerprint | None = None
    """Of one spelling of a value; a tombstone of a value has nothing else but its reason."""


def address_of(run_id: str, trace_id: str) -> str:
    """What a tombstone keeps of an address."""
    return content_id(["purged", run_id, trace_id])


def tombstones(root: Path) -> tuple[Tombstone, ...]:
    """All of them, in the order they were set. A damaged file raises `LakeError`."""
    path = root / FILE
    try:
        lines = path.read_bytes().split(b"\n") if path.is_file() else []
        return tuple(msgspec.json.decode(line, type=Tombstone) for line in lines if line)
    except msgspec.DecodeError as error:
        raise LakeError(f"{path}: damaged ({error}); restore the file from a copy") from None


def purged_by_run(root: Path) -> dict[str, frozenset[str]]:
    """Addresses that must not come back, by run id."""
    found: dict[str, set[str]] = {}
    for stone in tombstones(root):
        if stone.address:
            found.setdefault(stone.run_id, set()).add(stone.address)
    return {run_id: frozenset(addresses) for run_id, addresses in found.items()}


def erased_rows(root: Path) -> frozenset[str]:
    """Exact hashes of the rows that erased rollouts gave."""
    return frozenset(stone.row for stone in tombstones(root) if stone.row)


def unfinished(root: Path) -> bool:
    """Whether an erasure began and did not end."""
    return (root / UNFINISHED).is_file()


def of_values(root: Path, spellings: Sequence[str], reason: str) -> tuple[Tombstone, ...]:
    """Tombstones of the spellings of a value."""
    key = key_of(root) if spellings else b""
    return tuple(Tombstone(reason=reason, value=fingerprint(key, text.encode())) for text in sorted(spellings))


def bury(root: Path, stones: Iterable[Tombstone]) -> None:
    """Add tombstones. Of one thing there is one; what an earlier erasure did not know of it is added to it."""
    there = {_identity(stone): stone for stone in tombstones(root)}
    for stone in stones:
        known = there.get(_identity(stone), stone)
        there[_identity(stone)] = msgspec.structs.replace(
            known, content=known.content or stone.content, row=known.row or stone.row
        )
    replace_text(root / FILE, "".join(msgspec.json.encode(s).decode() + "\n" for s in there.values()))


def _identity(stone: Tombstone) -> str:
    return stone.value.mac if stone.value is not None else stone.address
