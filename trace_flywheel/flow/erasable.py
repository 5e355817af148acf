"""What an erasure is to take: sought by trace id or by value in the lake and in every version, whatever holds it.

Versions are older than the lake: one may hold a rollout, or what a rollout once said, that the lake holds no more. So
what is to go is sought in them too, and so is what erasures that were killed have left.
"""

import mmap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trace_flywheel.flow.expected import STEPS
from trace_flywheel.flow.ingest_tasks import GRADED, REDACTED
from trace_flywheel.lake import dataset
from trace_flywheel.lake.files import is_temporary
from trace_flywheel.lake.purged import address_of, purged_by_run
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.rows import Provenance

Address = tuple[str, str]
"""Run id and trace id."""
MIN_VALUE_CHARS = 6
"""Shorter ones stand in every other text by chance."""


def find_trace(lake: Lake, trace_id: str, run_id: str | None = None) -> tuple[Address, ...]:
    """Addresses of a trace, in all runs or in one (by its id or the last component of it), in the lake or in a version
    of a dataset; and what erasures that were killed have left."""
    found = set(_found(lake, lambda table: pc.equal(table["trace_id"], trace_id), run_id))
    for version in published(lake):
        found |= {at for at in _named(version) if at[1] == trace_id and _is_run(at[0], run_id)}
    return tuple(sorted(found | _unfinished(lake)))


def find_value(lake: Lake, value: str) -> tuple[Address, ...]:
    """Addresses of the rollouts in the lake whose text holds a value, as it is or as JSON spells it; and what erasures
    that were killed have left."""
    spellings = _spellings(value)

    def holds(table: pa.Table) -> pa.ChunkedArray:
        mask = np.zeros(table.num_rows, dtype=bool)
        for name in table.column_names:
            if pa.types.is_string(table[name].type) or pa.types.is_large_string(table[name].type):
                for spelling in spellings:
                    hits = pc.fill_null(pc.match_substring(table[name], spelling), False)
                    mask |= hits.to_numpy(zero_copy_only=False) if isinstance(hits, pa.Array) else hits.to_numpy()
        return pa.chunked_array([pa.array(mask)])

    return tuple(sorted({*_found(lake, holds, None), *_unfinished(lake)}))


def versions_with(lake: Lake, value: str) -> tuple[Path, ...]:
    """Folders of the dataset versions that hold a value, also where no rollout of the lake holds it any more."""
    spellings = [spelling.encode() for spelling in sorted(_spellings(value))]
    return tuple(v.path for v in published(lake) if any(_holds(file, spellings) for file in v.path.rglob("*.*")))


def value_of(file: Path) -> str:
    """The value that a file holds, without the line's end. It never stands on a command line or in a log."""
    value = file.read_text("utf-8").strip("\r\n")
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


def _found(lake: Lake, mask: Callable[[pa.Table], pa.ChunkedArray], run_id: str | None) -> tuple[Address, ...]:
    found: set[Address] = set()
    for step in (GRADED, REDACTED):
        for sidecar in lake.sidecars(step):
            if not _is_run(sidecar.run_id, run_id):
                continue
            for part in sidecar.parts:
                table = pq.read_table(lake.part_path(sidecar, part))
                traces = table.filter(mask(table))["trace_id"].to_pylist()
                found |= {(sidecar.run_id, trace) for trace in traces}
    return tuple(sorted(found))


def _unfinished(lake: Lake) -> set[Address]:
    """Addresses with a tombstone that stand somewhere all the same: an erasure was killed."""
    buried = purged_by_run(lake)
    found = {at for version in published(lake) for at in _named(version)} if buried else set()
    for run_id in buried:
        for step in STEPS:
            if (sidecar := lake.sidecar(step, run_id)) is not None:
                for part in sidecar.parts:
                    traces = pq.read_table(lake.part_path(sidecar, part), columns=["trace_id"])["trace_id"]
                    found |= {(run_id, trace) for trace in traces.to_pylist()}
    return {at for at in found if address_of(*at) in buried.get(at[0], ())}


def _is_run(run_id: str, wanted: str | None) -> bool:
    return wanted is None or wanted in (run_id, run_id.rsplit("/", 1)[-1])


def _spellings(value: str) -> set[str]:
    return {value, orjson.dumps(value)[1:-1].decode()}


def _named(version: dataset.Version) -> Iterator[Address]:
    """Addresses that a version knows: of its rows and of what it dropped."""
    for row in dataset.provenance(version):
        yield from zip(runs_of(row), row.trace_ids, strict=False)
    for fate in dataset.fates(version).select(["run_id", "trace_id"]).to_pylist():
        if fate["trace_id"] is not None:
            yield fate["run_id"], fate["trace_id"]


def _holds(file: Path, spellings: Sequence[bytes]) -> bool:
    """Whether a file of text holds one of them."""
    if file.suffix == ".parquet" or not file.is_file() or not file.stat().st_size:
        return False
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return any(text.find(spelling) >= 0 for spelling in spellings)
