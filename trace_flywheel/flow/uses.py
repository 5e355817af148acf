"""Which rows of the frame became which published rows: two numbers each, not lists of texts by row."""

from array import array
from collections.abc import Iterable

import msgspec
import numpy as np
import pyarrow as pa

from trace_flywheel.lake.columns import column
from trace_flywheel.lake.numbers import Numbers


class Uses(msgspec.Struct):
    """`add` each published row."""

    numbers: Numbers = msgspec.field(default_factory=Numbers)
    """Of the rows, by their ids: 0, 1 and so on. Whoever makes the rows counts them."""
    _sources: "array[int]" = msgspec.field(default_factory=lambda: array("q"))
    _rows: "array[int]" = msgspec.field(default_factory=lambda: array("I"))

    def add(self, sources: Iterable[int], number: int) -> None:
        """A row by its number, and the rows of the frame that it is made from."""
        for source in sources:
            self._sources.append(source)
            self._rows.append(number)

    def counts(self, n: int) -> np.ndarray:
        """How many rows are made from each of the `n` rows of the frame."""
        return np.bincount(np.array(self._sources), minlength=n)

    def row_ids(self, n: int) -> "RowIds":
        """Of the `n` rows of the frame, once all were added."""
        sources, rows = np.array(self._sources), np.array(self._rows)
        order = np.lexsort((self.numbers.ranks()[rows], sources))
        return RowIds(self.numbers, rows[order], np.append(0, np.cumsum(self.counts(n))))


class RowIds:
    """The ids of the rows that are made from each row of the frame: numbers, of which few become texts at a time."""

    def __init__(self, ids: Numbers, rows: np.ndarray, offsets: np.ndarray) -> None:
        self._ids, self._rows, self._offsets = ids, rows, offsets

    def of(self, sources: np.ndarray) -> pa.ListArray:
        """Of each of these rows of the frame its ids, sorted."""
        starts = self._offsets[sources]
        counts = self._offsets[sources + 1] - starts
        ends = np.append(0, np.cumsum(counts))
        rows = self._rows[np.repeat(starts - ends[:-1], counts) + np.arange(ends[-1])]
        texts = column([self._ids[row] for row in rows.tolist()], pa.string())
        return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), texts)
