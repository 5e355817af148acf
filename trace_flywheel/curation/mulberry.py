"""Mulberry32, the generator that PostTrainLLM shuffles with: for the results that must come out as they do there."""

from collections.abc import MutableSequence
from typing import Any

_MASK = 0xFFFFFFFF


class Mulberry32:
    """Seeded with the low 32 bits; 0 stands for 0xDEADBEEF."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK or 0xDEADBEEF

    def next(self) -> int:
        """The next 32-bit number."""
        self._state = (self._state + 0x6D2B79F5) & _MASK
        t = self._state
        t = ((t ^ (t >> 15)) * (t | 1)) & _MASK
        t ^= (t + ((t ^ (t >> 7)) * (t | 61))) & _MASK
        return t ^ (t >> 14)

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Fisher-Yates from the end, in place."""
        for i in range(len(items) - 1, 0, -1):
            j = self.next() % (i + 1)
            items[i], items[j] = items[j], items[i]
