"""Many byte strings looked for at once: of few each is searched by itself, of many all in one pass over the data.

A search skips by its needle's length and is the fastest way for some. For thousands it takes their number times the
data, which is a square where every text brings its own; and to build an automaton of them takes longer than all their
searches in a megabyte. So eight bytes of each are hashed into a table, every eight bytes of the data are looked up in
it, and only where they are seen is a needle compared.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

WINDOW = 8
FEW = 64
"""Needles that are searched one by one: measured, of so many one pass takes as long, in data of any size."""
_CROWD = 8
"""Needles with the same window that are compared where it is seen; of more, as of repetitions of different lengths,
each is searched by itself: a text of such windows would take their number times its own length."""
_AT_ONCE = 1 << 16
"""Windows looked up together: their hashes stay in the processor's cache."""
_SPREAD = 0x9E3779B97F4A7C15
"""An odd number whose product with a window has well mixed high bits."""
_ROOM, _LARGEST = 32, 24
"""Places in the table for each needle, of which few are then taken by chance; bits of the largest table."""


class Needles:
    """Needles, none of them empty. What one pass needs of them is made when it is first needed."""

    def __init__(self, needles: Sequence[bytes]) -> None:
        self._needles = needles
        self._shortest = min(map(len, needles), default=0)

    def places(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Where the needles stand in the data, in the needles' order; those of one do not overlap."""
        if len(data) < self._shortest:
            return
        if len(self._needles) <= FEW or self._shortest < WINDOW:
            for needle in self._needles:
                yield from ((at, needle) for at in _searched(data, needle))
            return
        for needle, found in self._index.found(data):
            yield from ((at, needle) for at in found)

    @cached_property
    def _index(self) -> "_Index":
        return _Index(self._needles)


class _Index:
    """Eight bytes of each needle, which it shares with as few others as may be: of its first, middle and last ones.
    Keys and certificates begin alike, and some end alike."""

    def __init__(self, needles: Sequence[bytes]) -> None:
        import numpy as np  # only where there are many needles: most processes that redact never load it

        self._needles = needles
        lengths = np.array([len(needle) for needle in needles])
        starts = np.cumsum(lengths) - lengths
        windows = _windows(b"".join(needles))
        offsets = np.stack([(lengths - WINDOW) * part // 2 for part in range(3)])
        keys = windows[starts + offsets]
        _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
        best = np.argmin(counts[which.reshape(keys.shape)], axis=0), np.arange(len(needles))
        self._with: dict[int, list[tuple[int, int]]] = {}
        """Of each window, the needles that have it: which they are, and where in them it stands."""
        for window, *of in zip(keys[best].tolist(), range(len(needles)), offsets[best].tolist(), strict=True):
            self._with.setdefault(window, []).append((of[0], of[1]))
        crowds = [window for window, of in self._with.items() if len(of) > _CROWD]
        self._crowded = [rank for window in crowds for rank, _ in self._with.pop(window)]
        self._factor = np.uint64(_SPREAD)
        bits = min((_ROOM * len(needles)).bit_length(), _LARGEST)
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros(1 << bits, bool)
        taken = np.array(list(self._with), np.uint64)
        self._table[(taken * self._factor) >> self._shift] = True

    def found(self, data: bytes) -> Iterator[tuple[bytes, list[int]]]:
        """The needles that stand in the data, in their order, and the places of each, which do not overlap."""
        places = {rank: list(_searched(data, self._needles[rank])) for rank in self._crowded}
        ends: dict[int, int] = {}
        for at, window in self._seen(data):
            for rank, offset in self._with.get(window, ()):
                start, needle = at - offset, self._needles[rank]
                if start >= ends.get(rank, 0) and data.startswith(needle, start):
                    places.setdefault(rank, []).append(start)
                    ends[rank] = start + len(needle)
        for rank in sorted(places):
            yield self._needles[rank], places[rank]

    def _seen(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Places in the data of windows that may be a needle's, and those windows."""
        import numpy as np

        windows = _windows(data)
        for start in range(0, len(windows), _AT_ONCE):
            some = windows[start : start + _AT_ONCE]
            hashes = some * self._factor
            hashes >>= self._shift
            at = np.flatnonzero(self._table.take(hashes.view(np.int64)))
            yield from zip((at + start).tolist(), some[at].tolist(), strict=True)


def _windows(data: bytes) -> "np.ndarray":
    """Every eight bytes of the data, as one number each."""
    import numpy as np

    return np.ndarray((max(len(data) - WINDOW + 1, 0),), "<u8", data, 0, (1,))


def _searched(data: bytes, needle: bytes) -> Iterator[int]:
    at = data.find(needle)
    while at >= 0:
        yield at
        at = data.find(needle, at + len(needle))
