"""Corpora that are Parquet files."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from trace_flywheel.flow.corpus_files import File
from trace_flywheel.flow.corpus_rows import Mark, Placed, known_again
from trace_flywheel.flow.corpus_shapes import Conversation, conversation_of
from trace_flywheel.records.errors import FlywheelError

BATCH_ROWS = 64
"""Rows held as objects at a time: whole conversations, a hundred times as large as in the file."""


class Table(File):
    """A Parquet file: a place is a row's position. Columns of JSON text are read as what they spell."""

    def mark(self, before: Mark | None = None) -> tuple[Mark, bool]:
        return super().mark(before)[0], False  # a table that grows is written anew

    def rows(self, after: Mark | None = None) -> Iterator[Placed]:
        position = 0
        with self._opened() as file:
            for batch in file.iter_batches(BATCH_ROWS):
                for row in batch.to_pylist():
                    yield Placed(position + 1, position, conversation_of(_told(row)))
                    position += 1

    def again(self, places: Sequence[int]) -> Iterator[Conversation]:
        wanted, start = np.asarray(places), 0
        with self._opened() as file:
            for group in range(file.metadata.num_row_groups):
                end = start + file.metadata.row_group(group).num_rows
                here = wanted[(wanted >= start) & (wanted < end)] - start
                if len(here):
                    chosen = file.read_row_group(group).take(pa.array(here))
                    for batch in chosen.to_batches(BATCH_ROWS):
                        for row in batch.to_pylist():
                            yield known_again(_told(row), self.name)
                start = end

    def _opened(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self.path)
        except pa.ArrowInvalid as error:
            raise FlywheelError(
                f"{self.path}: no Parquet file ({error}); correct --dedup-against or the setting `corpora`"
            ) from None


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """A table's row, absent columns as if they were not there."""
    return {name: _plain(value) for name, value in row.items() if value is not None}


def _plain(value: Any) -> Any:
    """A cell without the nulls that a table's struct fills in; JSON text of a list is that list."""
    if isinstance(value, str) and value[:1] == "[":
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, list) else value
