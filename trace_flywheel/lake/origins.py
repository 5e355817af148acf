"""The provenance of the rows of a draft: on disk until all rows are known, then a table in their order.

Of a row it takes 0.3 kB there and 1 kB as Python's objects, which a hundred thousand rows would hold while their files
are written.
"""

import os
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from trace_flywheel.lake.columns import column
from trace_flywheel.lake.parts import TableFile, write_table
from trace_flywheel.records.rows import Provenance

PROVENANCE_SCHEMA = pa.schema(
    [
        pa.field("row_id", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("task_id", pa.string()),
        pa.field("run_id", pa.string()),
        pa.field("trace_ids", pa.list_(pa.string())),
        pa.field("grader", pa.string()),
        pa.field("grader_version", pa.string()),
        pa.field("rewards", pa.list_(pa.float64())),
        pa.field("source", pa.list_(pa.string())),
        pa.field("corrected_by", pa.string()),
        pa.field("masked_steps", pa.int64()),
        pa.field("delta", pa.float64()),
        pa.field("delta_source", pa.string()),
        pa.field("rejected_is_min", pa.bool_()),
        pa.field("group_size", pa.int64()),
        pa.field("spread", pa.float64()),
        pa.field("group_id", pa.string()),
        pa.field("rejected_run_id", pa.string()),
        pa.field("transforms", pa.list_(pa.string())),
        pa.field("split", pa.string()),
        pa.field("weight", pa.float64()),
        pa.field("suite", pa.string()),
    ]
)
"""The fields of `Provenance`, in their order."""
BATCH, GROUP = 1_000, 5_000
"""Rows that stand as Python's objects at a time, and rows that stand as columns: a row group."""


class Origins:
    """What `add` was given, by number; `close` when it is not needed any more."""

    def __init__(self, folder: Path) -> None:
        self._stream = (folder / "spool-provenance").open("w+b")
        self._ends = array("Q", [0])

    def add(self, row: Provenance) -> None:
        data = msgspec.msgpack.encode(msgspec.structs.astuple(row))
        self._stream.write(data)
        self._ends.append(self._ends[-1] + len(data))

    def __getitem__(self, number: int) -> Provenance:
        (values,) = self._values([number])
        return msgspec.convert(dict(zip(PROVENANCE_SCHEMA.names, values, strict=True)), Provenance)

    def write(self, path: Path, numbers: np.ndarray) -> None:
        """The ones with these numbers as a file."""
        if not len(numbers):
            write_table(path, pa.Table.from_batches([], PROVENANCE_SCHEMA))
            return
        with TableFile(path, PROVENANCE_SCHEMA) as file:
            for at in range(0, len(numbers), GROUP):
                of_group = numbers[at : at + GROUP]
                batches = [self._batch(of_group[b : b + BATCH].tolist()) for b in range(0, len(of_group), BATCH)]
                file.write(pa.Table.from_batches(batches).combine_chunks())

    def _batch(self, numbers: list[int]) -> pa.RecordBatch:
        columns = zip(PROVENANCE_SCHEMA.types, zip(*self._values(numbers), strict=True), strict=True)
        return pa.RecordBatch.from_arrays([column(values, kind) for kind, values in columns], schema=PROVENANCE_SCHEMA)

    def _values(self, numbers: Iterable[int]) -> Iterator[list[Any]]:
        self._stream.flush()
        for number in numbers:
            start, end = self._ends[number], self._ends[number + 1]
            yield msgspec.msgpack.decode(os.pread(self._stream.fileno(), end - start, start))

    def close(self) -> None:
        self._stream.close()
