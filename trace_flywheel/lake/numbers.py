"""Names and their numbers: 0, 1 and so on, as they came. A dict of texts takes 190 bytes a row id, this takes 50."""

from array import array
from collections.abc import Iterable, Iterator

import numpy as np

from trace_flywheel.lake.order import ranks

FIRST = 64
"""Slots at first; there are always twice as many as names, and a power of two."""


class Numbers:
    """All names stand behind each other; where one stands is found by its hash, in slots that hold numbers."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._text, self._ends = bytearray(), array("Q", [0])
        self._slots = _empty(FIRST)
        for name in names:
            self.add(name)

    def add(self, name: str) -> int:
        """Its number: the next one, where it has none."""
        slot = self._slot(name)
        if number := self._slots[slot]:
            return number - 1
        self._text += name.encode()
        self._ends.append(len(self._text))
        self._slots[slot] = len(self)
        if 2 * len(self) > len(self._slots):
            self._slots = _empty(2 * len(self._slots))
            for number, known in enumerate(self, 1):
                self._slots[self._slot(known)] = number
        return len(self) - 1

    def get(self, name: str) -> int | None:
        return number - 1 if (number := self._slots[self._slot(name)]) else None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, number: int) -> str:
        return self._text[self._ends[number] : self._ends[number + 1]].decode()

    def ranks(self) -> np.ndarray:
        """Of each its place among them all, sorted."""
        widths = np.unique(np.diff(np.array(self._ends)))
        if len(widths) != 1 or not widths[0]:
            return ranks(list(self))
        found = np.empty(len(self), dtype=np.int64)
        found[np.argsort(np.frombuffer(bytes(self._text), dtype=f"S{widths[0]}"))] = np.arange(len(self))
        return found

    def _slot(self, name: str) -> int:
        """Where its number stands, or would."""
        data, last = name.encode(), len(self._slots) - 1
        slot = hash(name) & last
        while number := self._slots[slot]:
            if self._text[self._ends[number - 1] : self._ends[number]] == data:
                break
            slot = (slot + 1) & last
        return slot


def _empty(n: int) -> "array[int]":
    return array("I", bytes(n * array("I").itemsize))
