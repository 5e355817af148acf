"""A published dataset version held against what it promises, from its bytes alone.

Publication keeps these promises itself and drops what would break them; the audit reads the finished files once more,
so that a person (or Dagster's blocking checks) need not take its word. What another process published is scanned whole;
of its own files those that are not, byte for byte, what the same rules found clean (`cleared`). Every promise gives a
list of faults, empty where it holds. Faults name rows and places, never a secret's value.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pyarrow as pa

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow.cleared import is_known
from trace_flywheel.flow.crew import Crew
from trace_flywheel.lake.dataset import CANONICAL, Version, fates, provenance, row_ids
from trace_flywheel.lake.ledger import ledger_of
from trace_flywheel.records.golden import Golden
from trace_flywheel.records.message import Message, ToolCall
from trace_flywheel.records.rows import Provenance
from trace_flywheel.records.shortage import shortage_of
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.redact import redactor

PROMISES = {
    "ledger_conserves": "What entered is what was kept plus what was dropped, each with stage and reason.",
    "provenance_complete": "Every row names its run, traces, grader and source file with its hash, in the rows' order.",
    "no_golden": "No row is a golden, by task id or by text.",
    "no_secret_left": "A scan of every value of every layout finds nothing.",
    "row_ids_unique": "No row stands twice, unless a mix repeats it, and then no more often than it may.",
    "card_matches_files": "Names, sizes, hashes and counts of manifest and card are those of the files.",
}
FAULTS_SHOWN = 5
BUFFER = 1 << 18
"""Bytes read at once: rows are longer than Python's own buffer, which then reads lines at a third of the speed."""
BYTES_A_SECOND = 200_000_000
"""Of files that are read, about."""
AUDITED = ("row_id", "kind", "task_id", "run_id", "trace_ids", "grader", "source", "suite")
"""What of the provenance of a row is looked at."""


def audit(version: Version, crew: Crew[Holdout], policy: Policy) -> dict[str, list[str]]:
    """Faults by promise, all promises in the order of `PROMISES`. Rows are streamed, files read by the crew."""
    faults: dict[str, list[str]] = {name: [] for name in PROMISES}
    pa.default_memory_pool().release_unused()  # what the publication has freed would stay this process's
    rows: pa.ChunkedArray = pa.chunked_array([], pa.string())
    try:
        rows = row_ids(version)
        faults["ledger_conserves"] += _ledger(version, rows)
        goldens = _by_name(crew.shared)
        for row in provenance(version, AUDITED):
            faults["provenance_complete"] += _provenance(row)
            if any(golden.is_task(row.task_id, row.suite) for golden in goldens.get(row.task_id, ())):
                faults["no_golden"].append(f"row {row.row_id}: task {row.task_id}")
    except (OSError, KeyError, pa.ArrowException, msgspec.MsgspecError) as error:
        told = " ".join(str(error).split())
        faults["card_matches_files"].append(f"provenance.parquet or fates.parquet cannot be read ({told})")
    most = shortage_of(version.manifest["settings"]["mix"]["shortage"])[1] if "mix" in version.manifest["facts"] else 1
    faults["row_ids_unique"] += [f"row {row_id}" for row_id in _more_often(most, rows)]
    tasks = [File(version.path, file, policy, is_known(policy, file["sha256"])) for file in version.manifest["files"]]
    at, same = 0, True
    for read in crew.over(read_file, tasks, sum(task.told["bytes"] for task in tasks) / BYTES_A_SECOND):
        for promise, found in read.faults.items():
            faults[promise] += found
        if read.canonical:
            same &= _names(rows.slice(at, read.rows).to_pylist()) == read.row_ids
            at += read.rows
    if at != len(rows) or not same:
        faults["provenance_complete"].append(f"{at} rows in {CANONICAL}, {len(rows)} in provenance.parquet")
    faults["card_matches_files"] += _card(version, at)
    return faults


class File(msgspec.Struct, frozen=True):
    """A file of a version to be read, and what the manifest says of it."""

    folder: Path
    told: dict[str, Any]
    policy: Policy
    known: bool
    """Bytes like those that the manifest names need no scan."""


class Read(msgspec.Struct, frozen=True):
    """What was found in a file."""

    canonical: bool
    rows: int
    row_ids: str
    """Of canonical rows, in their order (`_names`)."""
    faults: dict[str, list[str]]


def read_file(holdout: Holdout, file: File) -> Read:
    """Hold one file against the promises that speak of its bytes."""
    path, name = file.folder / file.told["path"], file.told["path"]
    canonical, seen = name.startswith("data-"), _Seen()
    secrets: list[str] = []
    goldens: list[str] = []
    row_ids: list[str] = []
    unread: list[str] = []
    if not path.is_file():
        return Read(canonical, 0, _names(()), {"card_matches_files": [f"{name}: there is no such file"]})
    for number, line in enumerate(seen.lines(path), 1):
        if not file.known:
            secrets += _secrets(line, file.policy, f"{name}:{number}")
        if canonical:
            try:
                row_ids.append(_row_id(line, file.known))
                if holdout.goldens:
                    goldens += _golden(orjson.loads(line), holdout, f"{name}:{number}")
            except (msgspec.MsgspecError, ValueError, LookupError, TypeError, AttributeError):  # whatever stands there
                unread.append(f"{name}:{number}: not a row")
    differences = [*unread, *seen.differences(file.told)]
    if file.known and differences:
        for number, line in enumerate(_Seen().lines(path), 1):
            secrets += _secrets(line, file.policy, f"{name}:{number}")
    faults = {"no_secret_left": secrets, "no_golden": goldens, "card_matches_files": differences}
    return Read(canonical, seen.rows, _names(row_ids), faults)


def _names(row_ids: Iterable[str]) -> str:
    """Stands for names in their order."""
    return hashlib.sha256("\n".join(row_ids).encode()).hexdigest()


def _secrets(line: bytes, policy: Policy, place: str) -> Iterator[str]:
    if found := redactor(policy).scan_line(line.rstrip(b"\n")):
        yield f"{place}: {', '.join(sorted(found))}"


def _ledger(version: Version, rows: pa.ChunkedArray) -> Iterator[str]:
    import pyarrow.compute as pc

    table = fates(version, ("kept", "stage", "reason", "row_ids"))
    try:
        ledger = ledger_of(table)
    except AssertionError as error:
        yield str(error)
        return
    if ledger.as_json() != version.manifest["counts"]:
        yield f"fates.parquet says {ledger.as_json()}, manifest.json {version.manifest['counts']}"
    told, there = pc.unique(pc.list_flatten(table["row_ids"])), pc.unique(rows)
    unknown = sum(
        len(one) - (pc.sum(pc.is_in(one, other)).as_py() or 0) for one, other in ((told, there), (there, told))
    )
    if unknown:
        yield f"{unknown} rows without a fate, or fates without their row"


def _more_often(most: int, rows: pa.ChunkedArray) -> list[str]:
    """Names that stand there more often, sorted."""
    import pyarrow.compute as pc

    counted = pc.value_counts(rows)
    found: list[str] = counted.field("values").filter(pc.greater(counted.field("counts"), most)).to_pylist()
    return sorted(found)


def _provenance(row: Provenance) -> Iterator[str]:
    wanted = 2 if row.kind == "pair" else 1
    missing = [name for name in ("row_id", "task_id", "run_id", "grader") if not getattr(row, name)]
    missing += [name for name in ("trace_ids", "source") if len(getattr(row, name)) != wanted]
    if not all(len(source.rpartition("#")[2]) == 64 for source in row.source):
        missing.append("source hash")
    if missing:
        yield f"row {row.row_id}: {', '.join(missing)}"


def _by_name(holdout: Holdout) -> dict[str, list[Golden]]:
    """Goldens by the names of their tasks; a side that names no suite matches every suite."""
    by_name: dict[str, list[Golden]] = {}
    for golden in holdout.goldens:
        for _, name in golden.names:
            by_name.setdefault(name, []).append(golden)
    return by_name


def _golden(row: Mapping[str, Any], holdout: Holdout, place: str) -> Iterator[str]:
    if "messages" in row:
        conversations = [row["messages"]]
    elif "verifier" in row:
        conversations = [row["prompt"]]
    elif "completion" in row:
        conversations = [row["prompt"] + row["completion"]]
    else:
        conversations = [row["prompt"] + row["chosen"], row["prompt"] + row["rejected"]]
    for conversation in conversations:
        if hit := holdout.hits([_message(m) for m in conversation]):
            yield f"{place}: golden {hit['golden']} by {hit['side']}"


def _message(row: Mapping[str, Any]) -> Message:
    calls = [ToolCall(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in row.get("tool_calls", ())]
    return Message(row["role"], row["content"], row.get("reasoning_content"), tuple(calls))


class _Named(msgspec.Struct):
    """The one field of a row by which it is known; the rest is passed over."""

    row_id: str


_named = msgspec.json.Decoder(_Named).decode
_BEGINS = re.compile(rb'\{"row_id":"([0-9a-f]+)"')


def _row_id(line: bytes, ours: bool) -> str:
    """By which a row is known. Ours begins with it, and it is not read to its end where the file proves to be ours."""
    begins = _BEGINS.match(line) if ours else None
    return _named(line).row_id if begins is None else begins[1].decode()


class _Seen:
    """A file while its lines are looked at: what the manifest says of it, counted along the way."""

    def __init__(self) -> None:
        self._digest, self.rows, self._size = hashlib.sha256(), 0, 0

    def lines(self, path: Path) -> Iterator[bytes]:
        with path.open("rb", BUFFER) as stream:
            for line in stream:
                self._digest.update(line)
                self.rows, self._size = self.rows + 1, self._size + len(line)
                yield line

    def differences(self, file: Mapping[str, Any]) -> Iterator[str]:
        found = {"rows": self.rows, "bytes": self._size, "sha256": self._digest.hexdigest()}
        if wrong := [name for name, value in found.items() if file[name] != value]:
            yield f"{file['path']}: {', '.join(wrong)} differ from the manifest"


def _card(version: Version, rows: int) -> Iterator[str]:
    try:
        card = (version.path / "README.md").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        card = ""
    if rows != version.rows or version.path.name != version.version:
        yield f"manifest.json says {version.rows} rows of {version.version}; there are {rows} in {version.path.name}"
    for stated in (f"`{version.version}`", f"{version.rows} rows"):
        if stated not in card:
            yield f"README.md does not say {stated}"


def shown(faults: Sequence[str]) -> str:
    """Faults in one text, the first few of many."""
    if not faults:
        return "none"
    text = "; ".join(faults[:FAULTS_SHOWN])
    return text if len(faults) <= FAULTS_SHOWN else f"{text}; and {len(faults) - FAULTS_SHOWN} more"
