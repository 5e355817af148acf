"""The scalars of all runs' index in one file, so that a look at all runs reads it and the runs that changed since.

A small Parquet file costs milliseconds whatever it holds: ten thousand of them are forty seconds, one file of the same
rows is one. What is gathered is a copy, known by the runs and contents that it was made of; a run that changed or went
away is passed over in it and read from its own partition. When those are many, everything is gathered anew.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trace_flywheel.lake.index import GATHERED, INDEX_SCHEMA, SCALARS
from trace_flywheel.lake.sidecar import LakeError, Sidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.canonical import content_id

ROWS, RUNS = "rows", "runs"
SCHEMA = pa.schema([INDEX_SCHEMA.field(name) for name in SCALARS])
"""What is gathered; the long columns are read of the rows that need them (`columns`)."""
FEW = 64
"""Runs read one by one before gathering pays."""
SHARE = 0.02
"""Of all runs: what may have changed before everything is gathered anew."""
RUNS_SCHEMA = pa.schema([("run_id", pa.string()), ("content", pa.string())])


def index_rows(lake: Lake, runs: Sequence[Sidecar], columns: Sequence[str] | None = None) -> pa.Table:
    """The scalars of the index entries of these runs, in no particular order, or some of them.

    Gathers all of them where too many runs stand alone. Raises `LakeError` when a run changes meanwhile.
    """
    schema = SCHEMA if columns is None else pa.schema([SCHEMA.field(name) for name in columns])
    wanted = {run.run_id: run.content_digest for run in runs}
    kept, rows = _gathered(lake, wanted, schema)
    alone = [run for run in runs if run.run_id not in kept]
    table = pa.concat_tables([rows, *_read(lake, alone, schema)]).unify_dictionaries()
    if columns is None and len(alone) > max(FEW, SHARE * len(runs)):
        _gather(lake, wanted, table)
    return table


def forget(lake: Lake) -> None:
    """Remove what was gathered: it holds rows of runs that are to go."""
    lake.discard(GATHERED)


def _gathered(lake: Lake, wanted: dict[str, str], schema: pa.Schema) -> tuple[set[str], pa.Table]:
    """Runs whose gathered rows are those of today, and the rows."""
    nothing: tuple[set[str], pa.Table] = set(), schema.empty_table()
    try:
        current = lake.current(GATHERED)
        if current is None or current.inputs_digest != _shape():
            return nothing
        folder = lake.root / GATHERED / current.digest
        known = pq.ParquetFile(folder / f"{RUNS}.parquet").read()
        asked = sorted({*schema.names, "run_id"}, key=SCHEMA.names.index)
        rows = pq.ParquetFile(folder / f"{ROWS}.parquet").read(columns=asked).select(asked)
    except FileNotFoundError:  # another process gathers
        return nothing
    pairs = zip(known["run_id"].to_pylist(), known["content"].to_pylist(), strict=True)
    kept = {run_id for run_id, content in pairs if wanted.get(run_id) == content}
    if len(kept) < known.num_rows:
        rows = rows.filter(pc.is_in(rows["run_id"], value_set=pa.array(sorted(kept), pa.string())))
    return kept, rows.select(schema.names)


def _read(lake: Lake, runs: Sequence[Sidecar], schema: pa.Schema) -> Iterator[pa.Table]:
    for run in runs:
        try:
            for part in run.parts:
                path = lake.part_path(run, part)
                table = pq.ParquetFile(path).read(columns=schema.names)
                # A partition of an older version lacks columns, which are null then; the slower reader fills them.
                yield table if table.schema.equals(schema) else pq.read_table(path, schema=schema)
        except FileNotFoundError:
            raise LakeError(f"run {run.run_id} changed while the index was read; run it again") from None


def _gather(lake: Lake, wanted: dict[str, str], rows: pa.Table) -> None:
    runs = pa.table({"run_id": sorted(wanted), "content": [wanted[run] for run in sorted(wanted)]}, schema=RUNS_SCHEMA)
    with suppress(PermissionError):  # a home that may only be read
        lake.put(GATHERED, {ROWS: rows, RUNS: runs}, _shape(), {"runs": len(wanted)})


def _shape() -> str:
    """Of the columns: rows of other ones are no use."""
    return content_id([[field.name, str(field.type)] for field in SCHEMA])
