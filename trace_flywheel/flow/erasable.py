"""What an erasure is to take: sought by trace id or by value in the lake and in every version, whatever holds it.

What says the same as something that goes, goes too, in whatever run it stands.

Versions are older than the lake: one may hold a rollout, or what a rollout once said, that the lake holds no more. So
what is to go is sought in them too, and so is what erasures that were killed have left.
"""

import json
import mmap
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import orjson
import pyarrow as pa

from trace_flywheel.flow.contents import contents_of
from trace_flywheel.flow.erased import plain, spellings, texts_of
from trace_flywheel.flow.expected import STEPS
from trace_flywheel.flow.ingest_tasks import GRADED, REDACTED
from trace_flywheel.lake import dataset
from trace_flywheel.lake.columns import table_in
from trace_flywheel.lake.files import is_temporary
from trace_flywheel.lake.parts import read_rollouts
from trace_flywheel.lake.purged import address_of, purged_by_run
from trace_flywheel.lake.quarantine import quarantines
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.rows import Provenance
from trace_flywheel.sources.discover import run_id_of

Address = tuple[str, str]
"""Run id and trace id."""
MIN_VALUE_CHARS = 6
"""Shorter ones stand in every other text by chance."""


def find_trace(lake: Lake, trace_id: str, run_id: str | None = None) -> tuple[Address, ...]:
    """Addresses of a trace, in all runs or in one (by its id or the last component of it), in the lake or in a version
    of a dataset; their copies; and what erasures that were killed have left."""
    found = {
        at
        for step in (GRADED, REDACTED)
        for at in _standing(lake, step)
        if at[1] == trace_id and _is_run(at[0], run_id)
    }
    for version in published(lake):
        found |= {at for at in named_in(version) if at[1] == trace_id and _is_run(at[0], run_id)}
    return _with_copies(lake, found | _unfinished(lake))


def find_value(lake: Lake, value: str) -> tuple[Address, ...]:
    """Addresses of the rollouts in the lake whose text holds a value, however it is spelled there; their copies; and
    what erasures that were killed have left."""
    spelt = [text.encode() for text in spellings(value)]
    found: set[Address] = set()
    for step in (GRADED, REDACTED):
        for sidecar in lake.sidecars(step):
            for part in sidecar.parts:
                for _, rollout in read_rollouts(lake.part_path(sidecar, part)):
                    if _is_in(spelt, texts_of(rollout)):
                        found.add((sidecar.run_id, rollout.trace_id))
    return _with_copies(lake, found | _unfinished(lake))


def drops_with(lake: Lake, value: str) -> tuple[str, ...]:
    """Runs that lost something whose evidence quotes a value."""
    spelt = [text.encode() for text in spellings(value)]
    sidecars = (sidecar for step in STEPS for sidecar in lake.sidecars(step))
    found = {s.run_id for s in sidecars if any(_is_in(spelt, texts_of(drop)) for drop in lake.drops(s))}
    return tuple(sorted(found))


def runs_named(lake: Lake, value: str) -> tuple[str, ...]:
    """Runs of the lake whose name holds a value."""
    spelt = [text.encode() for text in spellings(value)]
    known = frozenset[str]().union(*map(lake.run_ids, STEPS)) | {entry.run_id for entry in quarantines(lake)}
    return tuple(sorted(run_id for run_id in known if _is_in(spelt, plain(run_id))))


def versions_with(lake: Lake, value: str) -> tuple[Path, ...]:
    """Folders of the dataset versions that hold a value, also where no rollout of the lake holds it any more."""
    spelt = quoted(value)
    return tuple(v.path for v in published(lake) if any(holds(file, spelt) for file in v.path.rglob("*.*")))


def value_of(file: Path) -> str:
    """The value that a file holds, without the line's end. It never stands on a command line or in a log."""
    try:
        value = file.read_text("utf-8").strip("\r\n")
    except UnicodeDecodeError as error:
        raise FlywheelError(f"{file}: byte {error.start} is no UTF-8; a value is a text") from None
    if len(value) < MIN_VALUE_CHARS:
        raise FlywheelError(
            f"{file}: holds {len(value)} characters; a value of fewer than {MIN_VALUE_CHARS} fits too much"
        )
    return value


def published(lake: Lake) -> Iterator[dataset.Version]:
    """Every version that stands."""
    for folder in sorted(path.parent for path in (lake.home / "datasets").glob("*/*/manifest.json")):
        if not is_temporary(folder):
            yield dataset.read_version(folder)


def runs_of(row: Provenance) -> tuple[str, str]:
    """The runs of a row's members, in the order of its trace ids."""
    return row.run_id, row.rejected_run_id or row.run_id


def _standing(lake: Lake, step: str) -> Iterator[Address]:
    """Addresses of the rows of a step, in all runs."""
    for sidecar in lake.sidecars(step):
        for part in sidecar.parts:
            traces = table_in(lake.part_path(sidecar, part), columns=["trace_id"])["trace_id"].to_pylist()
            yield from ((sidecar.run_id, trace) for trace in traces)


def _with_copies(lake: Lake, found: set[Address]) -> tuple[Address, ...]:
    """What was found, and everything in the lake that says the same as one of it."""
    if not found:
        return ()
    contents = {(s.run_id, trace): said for s in lake.sidecars(GRADED) for trace, said in contents_of(lake, s)}
    sought = {contents[at] for at in found if contents.get(at)}
    return tuple(sorted(found | {at for at, said in contents.items() if said in sought}))


def _unfinished(lake: Lake) -> set[Address]:
    """Addresses with a tombstone that stand somewhere all the same: an erasure was killed."""
    buried = purged_by_run(lake.root)
    found = {at for version in published(lake) for at in named_in(version)} if buried else set()
    for run_id in buried:
        for step in STEPS:
            if (sidecar := lake.sidecar(step, run_id)) is not None:
                for part in sidecar.parts:
                    traces = table_in(lake.part_path(sidecar, part), columns=["trace_id"])["trace_id"]
                    found |= {(run_id, trace) for trace in traces.to_pylist()}
    return {at for at in found if address_of(*at) in buried.get(at[0], ())}


def _is_run(run_id: str, wanted: str | None) -> bool:
    return wanted is None or wanted in (run_id, run_id.rsplit("/", 1)[-1])


def _is_in(spelt: Sequence[bytes], text: bytes) -> bool:
    return any(one in text for one in spelt)


def quoted(value: str) -> tuple[bytes, ...]:
    """Spellings of a value in files: those in texts, and what JSON makes of them."""
    spelt = spellings(value)
    spelt |= {unicodedata.normalize("NFD", text) for text in spelt} | {value, run_id_of(value)}
    quoted = {orjson.dumps(text)[1:-1] for text in spelt}
    return tuple(sorted({text.encode() for text in spelt} | quoted))


def named_in(version: dataset.Version) -> Iterator[Address]:
    """Addresses that a version knows: of its rows and of what it dropped."""
    for row in dataset.provenance(version):
        yield from zip(runs_of(row), row.trace_ids, strict=False)
    for fate in dataset.fates(version).select(["run_id", "trace_id"]).to_pylist():
        if fate["trace_id"] is not None:
            yield fate["run_id"], fate["trace_id"]


def holds(file: Path, spelt: Sequence[bytes]) -> bool:
    """Whether a file holds one of these texts, in its bytes or in the columns of its table. A table whose writer was
    killed is looked at as bytes, and swept by the erasure."""
    if not file.is_file() or not file.stat().st_size:
        return False
    if file.suffix == ".parquet":
        with suppress(pa.ArrowInvalid):
            rows = table_in(file).to_pylist()
            return _is_in(spelt, json.dumps(rows, ensure_ascii=False, default=repr).encode("utf-8", "surrogatepass"))
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return any(text.find(spelling) >= 0 for spelling in spelt)
