"""Digests of what the rollouts of the lake said: by them copies are known that stand under other names.

They are worked out from the texts where the lake keeps these. Where it does not (`lake.keep_raw = false`) they were
taken when the text was read, and lie in `contents.parquet` beside the parts, outside every digest.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from trace_flywheel.flow.erased import said
from trace_flywheel.flow.ingest_tasks import GRADED
from trace_flywheel.lake.columns import column, table_in
from trace_flywheel.lake.files import new_file
from trace_flywheel.lake.parts import read_rollouts
from trace_flywheel.lake.sidecar import Sidecar, file_mode
from trace_flywheel.lake.store import Lake

FILE = "contents.parquet"
SCHEMA = pa.schema([("trace_id", pa.string()), ("content", pa.string())])


def write_contents(folder: Path, contents: Iterable[tuple[str, str]]) -> None:
    """The digests of a run beside its parts."""
    pairs = list(contents)
    columns = (column([pair[place] for pair in pairs], field.type) for place, field in enumerate(SCHEMA))
    with new_file(folder / FILE, file_mode(GRADED)) as stream:
        pq.write_table(pa.Table.from_arrays(list(columns), schema=SCHEMA), stream)


def contents_of(lake: Lake, sidecar: Sidecar) -> Iterator[tuple[str, str]]:
    """(trace id, digest) of a run's rollouts as they were read; "" where one said nothing or nothing is known of it."""
    file = lake.generation_folder(sidecar) / FILE
    if file.is_file():
        table = table_in(file)
        yield from zip(table["trace_id"].to_pylist(), table["content"].to_pylist(), strict=True)
        return
    for part in sidecar.parts:
        for _, rollout in read_rollouts(lake.part_path(sidecar, part), exchanges=False):
            yield rollout.trace_id, said(rollout)
