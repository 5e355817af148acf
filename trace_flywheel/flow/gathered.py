"""The index of all runs in a few files, so that a look at all runs reads those and the runs that changed since.

A small Parquet file costs milliseconds whatever it holds: ten thousand of them are forty seconds, one file of the same
rows is one. What is gathered is a copy, known by the runs and contents that it was made of: the scalars of all runs in
one file, the long columns of small runs in packs (`packs`). A run that changed or went away is passed over in it and
read from its own partition. When those are many, everything is gathered anew.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trace_flywheel.flow.ahead import read_files
from trace_flywheel.flow.packs import LONG_SCHEMA, Packs, Place, columns_of, is_small
from trace_flywheel.lake.index import GATHERED, INDEX_SCHEMA, SCALARS
from trace_flywheel.lake.landing import POINTER
from trace_flywheel.lake.lock import at_rest
from trace_flywheel.lake.parts import write_table
from trace_flywheel.lake.sidecar import LakeError, Sidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.canonical import content_id

ROWS, RUNS = "rows", "runs"
SCHEMA = pa.schema([INDEX_SCHEMA.field(name) for name in SCALARS])
"""What is gathered in one file; the long columns are read of the rows that need them (`columns`)."""
SIZES = b"flywheel.sizes"
FEW = 64
"""Runs read one by one before gathering pays."""
SHARE = 0.02
"""Of all runs: what may have changed before everything is gathered anew."""
RUNS_SCHEMA = pa.schema(
    [("run_id", pa.string()), ("content", pa.string()), ("pack", pa.int32()), ("start", pa.int64())]
)


class Gathered(NamedTuple):
    """What stands of the runs that were asked for: those that are as they were, and where they are packed."""

    folder: Path | None
    runs: frozenset[str]
    places: dict[str, Place]


def index_rows(lake: Lake, runs: Sequence[Sidecar], columns: Sequence[str] | None = None) -> pa.Table:
    """The scalars of the index entries of these runs, in no particular order, or some of them.

    Gathers all of them where too many runs stand alone and nobody else is at work in the home, who may be reading what
    was gathered before. Raises `LakeError` when a run changes meanwhile.
    """
    schema = SCHEMA if columns is None else pa.schema([SCHEMA.field(name) for name in columns])
    standing = gathered(lake, runs)
    rows = _rows(standing, schema)
    if rows is None:  # another process gathers
        standing, rows = Gathered(None, frozenset(), {}), schema.empty_table()
    alone = [run for run in runs if run.run_id not in standing.runs]
    if columns is None and len(alone) > max(FEW, SHARE * len(runs)):
        with at_rest(lake.home) as alone_here, suppress(OSError):  # a home that may only be read
            if alone_here:
                return _gather(lake, runs, standing, rows)
    read = [table for run in alone for table in _read(lake, run, schema)]
    return pa.concat_tables([rows, *read]).unify_dictionaries()


def gathered(lake: Lake, runs: Sequence[Sidecar]) -> Gathered:
    """What of these runs is gathered as it is today."""
    nothing = Gathered(None, frozenset(), {})
    try:
        current = lake.current(GATHERED)
        if current is None or current.inputs_digest != _shape():
            return nothing
        folder = lake.root / GATHERED / current.digest
        read = pq.ParquetFile(folder / f"{RUNS}.parquet").read()
        if (read.schema.metadata or {}).get(SIZES) != _sizes(folder):
            return nothing
        known = read.to_pydict()
    except (OSError, pa.ArrowInvalid):  # another process gathers, or it is damaged
        return nothing
    wanted = {run.run_id: run.content_digest for run in runs}
    kept: set[str] = set()
    places: dict[str, Place] = {}
    for run_id, content, pack, start in zip(*(known[name] for name in RUNS_SCHEMA.names), strict=True):
        if wanted.get(run_id) == content:
            kept.add(run_id)
            if pack is not None:
                places[run_id] = Place(pack, start)
    return Gathered(folder, frozenset(kept), places)


def forget(lake: Lake) -> None:
    """Remove what was gathered: it holds rows of runs that are to go."""
    lake.discard(GATHERED)


def _rows(standing: Gathered, schema: pa.Schema) -> pa.Table | None:
    """The gathered rows of the runs that stand; None where they are gone by now."""
    if standing.folder is None:
        return schema.empty_table()
    asked = sorted({*schema.names, "run_id"}, key=SCHEMA.names.index)
    try:
        rows = pq.ParquetFile(standing.folder / f"{ROWS}.parquet").read(columns=asked).select(asked)
    except (OSError, pa.ArrowInvalid):
        return None
    stand = pc.is_in(rows["run_id"], value_set=pa.array(sorted(standing.runs), pa.string()))
    return (rows if pc.all(stand).as_py() else rows.filter(stand)).select(schema.names)


def _read(lake: Lake, run: Sidecar, schema: pa.Schema) -> list[pa.Table]:
    """Columns of a run, a table a part."""
    tables = []
    try:
        for part in run.parts:
            path = lake.part_path(run, part)
            table = pq.ParquetFile(path).read(columns=schema.names, use_threads=False)
            # A partition of an older version lacks columns, which are null then; the slower reader fills them.
            tables.append(table if table.schema.equals(schema) else pq.read_table(path, schema=schema))
    except FileNotFoundError:
        raise LakeError(f"run {run.run_id} changed while the index was read; run it again") from None
    return tables


def _gather(lake: Lake, runs: Sequence[Sidecar], standing: Gathered, rows: pa.Table) -> pa.Table:
    """Gather the runs anew; gives their scalars. What stands is taken over, what stands alone is opened once."""
    tables = [rows]
    ordered = sorted(runs, key=lambda run: run.run_id)

    def write(folder: Path) -> None:
        packs = Packs(folder, standing.folder, standing.places)
        alone = [run for run in ordered if run.run_id not in standing.runs]
        opened = read_files(lambda run: _read(lake, run, INDEX_SCHEMA if is_small(run) else SCHEMA), alone)
        for run in ordered:
            if run.run_id in standing.runs:
                packs.keep(run)
                continue
            read = next(opened)
            if is_small(run):
                tables.extend(table.select(SCHEMA.names) for table in read)
                packs.add(
                    run, pa.concat_tables([LONG_SCHEMA.empty_table(), *(t.select(LONG_SCHEMA.names) for t in read)])
                )
            else:
                tables.extend(read)
        packs.close()
        made = pa.concat_tables(tables).unify_dictionaries()
        tables[:] = [made]
        write_table(folder / f"{ROWS}.parquet", made)
        pack, start = columns_of([packs.places.get(run.run_id) for run in ordered])
        names = [[run.run_id for run in ordered], [run.content_digest for run in ordered]]
        columns = [*(pa.array(name, pa.string()) for name in names), pack, start]
        schema = RUNS_SCHEMA.with_metadata({SIZES: _sizes(folder)})
        write_table(folder / f"{RUNS}.parquet", pa.Table.from_arrays(columns, schema=schema))

    lake.put(GATHERED, {}, _shape(), {"runs": len(ordered)}, write)
    return tables[0]


def _sizes(folder: Path) -> bytes:
    """Of the files beside the list of runs: one that is cut is no use, and one that is gone."""
    files = sorted(path for path in folder.iterdir() if path.name not in (POINTER, f"{RUNS}.parquet"))
    return msgspec.json.encode([[path.name, path.stat().st_size] for path in files])


def _shape() -> str:
    """Of the columns: rows of other ones are no use."""
    return content_id(
        [[field.name, str(field.type)] for schema in (SCHEMA, LONG_SCHEMA, RUNS_SCHEMA) for field in schema]
    )
