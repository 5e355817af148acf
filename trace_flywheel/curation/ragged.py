"""Lists of integers, one a row, in two flat arrays: the layout of an Arrow list column, and what loops read."""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np


class Ragged(Sequence[Sequence[int]]):
    """The list of row i is `values[offsets[i]:offsets[i + 1]]`."""

    def __init__(self, values: np.ndarray, offsets: np.ndarray) -> None:
        self.values, self.offsets = values, offsets

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> "Ragged":
        """From lists of signed 64-bit integers."""
        offsets = np.zeros(len(lists) + 1, dtype=np.int64)
        np.cumsum([len(one) for one in lists], out=offsets[1:])
        return cls(np.array([value for one in lists for value in one], dtype=np.int64), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, row: int) -> list[int]: ...
    @overload
    def __getitem__(self, row: slice) -> list[list[int]]: ...
    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        return self.values[self.offsets[row] : self.offsets[row + 1]].tolist()
