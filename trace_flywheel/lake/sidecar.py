"""What the lake says about what it holds: the pointers of run partitions and of unpartitioned tables.

A sidecar is small, strict JSON with sorted keys; it names the generation that counts, what that was made from, and how
many rollouts entered, left and were dropped on the way.
"""

import re
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from trace_flywheel.lake.files import OPEN_FILE, PRIVATE_FILE
from trace_flywheel.records.canonical import sha256_hex
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop

FORMAT = 1
"""Version of everything below `lake/`; a lake of a newer version is refused, in words."""
RAW_ASSET = "graded_traces"
"""The only asset with raw text: files 0600 in folders 0700."""
LONG_NAME = 180
"""Longest folder name made from a run id; file systems take 255 bytes."""


class LakeError(FlywheelError):
    """A lake that cannot be used as it is: what, where, and what to do."""


def check_format(root: Path) -> None:
    """Refuse a lake of another format. One that nothing was written to has none."""
    mark = root / "format"
    found = mark.read_text("utf-8").strip() if mark.is_file() else str(FORMAT)
    if found != str(FORMAT):
        raise LakeError(
            f"{root}: the lake has format {found!r}, this flywheel reads format {FORMAT}; "
            "use the version that wrote it, or another --home"
        )


class Counts(msgspec.Struct, frozen=True):
    """Rollouts that entered a step, left it, and were dropped by stage and reason. `entered == kept + dropped`."""

    entered: int = 0
    kept: int = 0
    dropped: dict[str, dict[str, int]] = {}

    @property
    def n_dropped(self) -> int:
        return sum(n for reasons in self.dropped.values() for n in reasons.values())


class Part(msgspec.Struct, frozen=True):
    """One part file: what the sidecar says about it."""

    name: str
    rows: int
    sha256: str
    chunk: int = 0
    """The chunk of source units it was read from."""


class Sidecar(msgspec.Struct, frozen=True):
    """The pointer of a run partition: which generation counts and what is known about it."""

    format: int
    asset: str
    run_id: str
    generation: str
    content_digest: str
    """Of the part files and drops: what the next step depends on."""
    inputs_digest: str
    """Of what this step depended on: source fingerprint or the content before, settings, rules, code."""
    source_fingerprint: str
    counts: Counts
    parts: tuple[Part, ...] = ()
    facts: dict[str, Any] = {}
    """Small numbers for people (findings by rule, spellings, bytes)."""


class TableSidecar(msgspec.Struct, frozen=True):
    """What is known about one version of an unpartitioned asset."""

    format: int
    asset: str
    digest: str
    inputs_digest: str
    counts: dict[str, Any] = {}


_PLAIN = re.compile(r"[A-Za-z0-9_.~ +,=@/-]*").fullmatch


def encode_run(run_id: str) -> str:
    """One safe folder name for a run id; `urllib.parse.unquote` gives it back, unless a hash ends a long one."""
    # Quoting takes ten times as long as seeing that there is nothing to quote.
    name = run_id.replace("/", "%2F") if _PLAIN(run_id) else urllib.parse.quote(run_id, safe=" +,=@")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) <= LONG_NAME:
        return name
    return f"{re.sub('%[0-9A-F]?$', '', name[:LONG_NAME])}~{sha256_hex(run_id.encode())[:16]}"


def count_drops(drops: Sequence[Drop]) -> dict[str, dict[str, int]]:
    """Drops by stage and reason, both sorted."""
    counted: dict[str, dict[str, int]] = {}
    for drop in sorted(drops, key=lambda d: (d.stage.value, d.reason)):
        reasons = counted.setdefault(drop.stage.value, {})
        reasons[drop.reason] = reasons.get(drop.reason, 0) + 1
    return counted


def file_mode(asset: str) -> int:
    return PRIVATE_FILE if asset == RAW_ASSET else OPEN_FILE


def pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=1).decode() + "\n"
