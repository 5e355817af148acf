"""Corpora that are Parquet files. A large one is read in a process of its own: what reading takes, it keeps."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from trace_flywheel.flow.corpus_files import File
from trace_flywheel.flow.corpus_rows import Mark, Placed, known_again
from trace_flywheel.flow.corpus_shapes import Conversation, conversation_of
from trace_flywheel.flow.streamed import streamed
from trace_flywheel.records.errors import FlywheelError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

BATCH_ROWS = 16
"""Rows held as objects at a time: whole conversations, a hundred times as large as in the file."""
APART_BYTES = 500_000
"""A larger file is worth a process that reads it."""
Row = dict[str, Any]


class Table(File):
    """A Parquet file: a place is a row's position. Columns of JSON text are read as what they spell."""

    def mark(self, before: Mark | None = None) -> tuple[Mark, bool]:
        return super().mark(before)[0], False  # a table that grows is written anew

    def rows(self, after: Mark | None = None) -> Iterator[Placed]:
        for position, row in enumerate(self._read(None)):
            yield Placed(position + 1, position, conversation_of(_told(row)))

    def again(self, places: Sequence[int]) -> Iterator[Conversation]:
        for row in self._read(places):
            yield known_again(_told(row), self.name)

    def _read(self, places: Sequence[int] | None) -> Iterator[Row]:
        asked = self.path, places
        apart = self.stamp()[0] > APART_BYTES or "pyarrow" not in sys.modules
        for rows in streamed(_batches, asked) if apart else _batches(asked):
            yield from rows


def _batches(asked: tuple[Path, Sequence[int] | None]) -> Iterator[list[Row]]:
    """The rows of a file, or those at some places, a few at a time."""
    # tables are imported where one is read
    import pyarrow as pa

    path, places = asked
    wanted, start = None if places is None else np.asarray(places), 0
    with _opened(path) as file:
        for group in range(file.metadata.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            if wanted is None or np.any((wanted >= start) & (wanted < end)):
                for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], use_threads=False):
                    if wanted is None:
                        yield batch.to_pylist()
                    else:
                        here = wanted[(wanted >= start) & (wanted < start + len(batch))] - start
                        yield batch.take(pa.array(here)).to_pylist()
                    start += len(batch)
            start = end


def _opened(path: Path) -> "pq.ParquetFile":
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, pre_buffer=False)  # else a whole row group is read ahead
    except pa.ArrowInvalid as error:
        raise FlywheelError(
            f"{path}: no Parquet file ({error}); correct --dedup-against or the setting `corpora`"
        ) from None


def _told(row: Row) -> Row:
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
