"""Which rows of the frame became which published rows: two numbers each, not lists of texts by row."""

from array import array
from collections.abc import Iterable

import msgspec
import numpy as np
import pyarrow as pa

from trace_flywheel.lake.columns import column
from trace_flywheel.lake.order import ranks


class Uses(msgspec.Struct):
    """`add` each published row."""

    numbers: dict[str, int] = {}
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

    def row_ids(self, n: int) -> pa.ListArray:
        """Of each of the `n` rows of the frame the ids of the rows that are made from it, sorted."""
        sources, rows, ids = np.array(self._sources), np.array(self._rows), list(self.numbers)
        order = np.lexsort((ranks(ids)[rows], sources))
        offsets = np.append(0, np.cumsum(self.counts(n))).astype(np.int32)
        return pa.ListArray.from_arrays(offsets, column(ids, pa.string()).take(pa.array(rows[order])))
