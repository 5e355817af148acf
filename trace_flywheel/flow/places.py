"""Places at work that several threads ask for: of those who wait, the one of the lowest rank gets the next.

Datasets that are made side by side hand their pieces to the same processes. If all took turns, all would be done at the
end, and each would be written, synced and audited while no core has anything else to do. So the one that is asked for
first comes first; whoever comes after it gets what it leaves.
"""

import itertools
import threading
from bisect import insort
from contextvars import ContextVar

rank: ContextVar[float] = ContextVar("rank", default=0)
"""Of the thread that asks. Among equals who asked first comes first."""


class Places:
    """So many tasks under way at once, whoever they belong to."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._asked: list[tuple[float, int]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()

    def take(self) -> None:
        """Wait for a place."""
        with self._changed:
            own = rank.get(), next(self._numbers)
            insort(self._asked, own)
            try:
                while not self._free or self._asked[0] != own:
                    self._changed.wait()
                self._free -= 1
            finally:  # an interrupt too: nobody waits behind one who is gone
                self._asked.remove(own)
                self._changed.notify_all()

    def give(self) -> None:
        """Give a place back that was taken, from any thread."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()
