"""Datasets of a pass that are worked on before they are asked for: they are decided, and their rows are made, while
others are published; what was published is audited, and its mix is chosen.

No two are decided at once, so that the memory of one decision is all that decisions take. Nothing of a dataset can be
seen before it is asked for, and what it fails with is told then. Only for a pass in which nobody else writes, and
whose rows are made by processes of their own: what makes rows is no matter of two threads. (A mix makes a few of its
rows itself, as part of its decision.)
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.util import Finalize
from typing import Any

import pyarrow as pa

from trace_flywheel.flow import datasets
from trace_flywheel.flow.crew import ENDS_FIRST
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.names import Kind, name_of
from trace_flywheel.flow.places import rank
from trace_flywheel.flow.standing import Made
from trace_flywheel.flow.turn import Turn

Named = tuple[Kind, str | None]
"""Kind and recipe."""
LEAST_AHEAD, ROLLOUTS_AHEAD = 2, 40_000
"""Datasets: two always, so that a large one never waits for the small one before it; four of 10,000 rollouts each."""
LATER = 0.5
"""A dataset is audited before rows of the next one are made: the audit is asked for first."""
PATIENCE = 10.0
"""Seconds that a process which ends waits for a dataset to remove what was made of it."""


class GivenUpError(Exception):
    """Nobody is going to ask for it any more."""


class Coming:
    """The datasets of a pass over so many rollouts. `order`: in which they are expected to be asked for; another one
    costs time alone. `audit` holds a dataset that was published against what it promises."""

    def __init__(
        self,
        curation: Curation,
        order: Sequence[Named],
        rollouts: int,
        audit: Callable[[Curation, str], Any],
    ) -> None:
        self._curation: Curation | None = curation
        self.audit = audit
        self._most = max(LEAST_AHEAD, ROLLOUTS_AHEAD // max(rollouts, 1))
        self._is_large = rollouts > ROLLOUTS_AHEAD
        self._left = deque(order)
        self._ahead: dict[Named, _Dataset] = {}
        self._begun: list[_Dataset] = []
        self._lock, self.deciding = threading.Lock(), threading.Lock()
        # Before the processes of the crew end; and after it, when nobody waits for them any more.
        Finalize(None, self.give_up, exitpriority=ENDS_FIRST + 1)
        Finalize(None, self.rest, exitpriority=ENDS_FIRST - 1)

    def make(self, kind: Kind, recipe: str | None) -> Made:
        """`datasets.make`, of which much is done already."""
        name = kind, recipe
        with self._lock:
            own = self._ahead.pop(name, None) or self._begin(name)
        own.ask()
        self.go_on()
        return own.made.result()

    def beside(self) -> AbstractContextManager[Any]:
        """A block of other work over all rollouts: of many it waits for the decision under way, whose memory it would
        add to."""
        return self.deciding if self._is_large else nullcontext()

    def audited(self, name: str) -> Any:
        """What the audit gave that followed the publication of a dataset, once; None where there was none."""
        with self._lock:
            of_name = (one for one in self._begun if name_of(*one.name) == name and one.is_audited)
            if (own := next(of_name, None)) is None:
                return None
            own.is_audited = False
        return own.audited.result()

    def go_on(self) -> None:
        """Begin the next one, where there is room for it and all that were begun are decided."""
        with self._lock:
            if len(self._ahead) >= self._most or not all(one.is_decided for one in self._begun):
                return
            for name in [one for one in self._left if self._may_begin(one)]:
                self._left.remove(name)
                if all(one.name != name for one in self._begun):
                    self._ahead[name] = self._begin(name)
                    return

    def _may_begin(self, name: Named) -> bool:
        """A mix is chosen from what was published."""
        kind, recipe = name
        return kind != "mix" or any(one.name == ("sft", recipe) and one.is_published for one in self._begun)

    def give_up(self) -> None:
        """Nobody asks any more: what was worked out for them is kept by none but those that are still at work."""
        with self._lock:
            self._curation = None
            self._left.clear()
            for one in self._begun:
                one.give_up()

    def rest(self) -> None:
        """Wait until nothing is under way that was given up."""
        wait([one.made for one in self._begun], PATIENCE)

    def _begin(self, name: Named) -> "_Dataset":
        if self._curation is None:
            raise GivenUpError
        own = _Dataset(name, self)
        own.rank = len(self._begun)
        self._begun.append(own)
        threading.Thread(target=own.run, args=(self._curation,), daemon=True).start()
        return own


class _Dataset(Turn):
    """One of them, made in a thread."""

    def __init__(self, name: Named, coming: Coming) -> None:
        self.name, self._coming = name, coming
        self.made: Future[Made] = Future()
        self.audited: Future[Any] = Future()
        self.is_decided = self.is_published = self.is_audited = self._given_up = False
        self.rank = 0
        self._asked = threading.Event()

    def run(self, curation: Curation) -> None:
        rank.set(self.rank)  # its rows before those of the next ones, and so it is published while they are made
        self._coming.deciding.acquire()
        try:
            self._stop_if_given_up()
            made = datasets.make(curation, *self.name, self)
        except BaseException as error:  # whatever it is, somebody waits for it
            self.made.set_exception(self._told(error))
        else:
            self.is_published, self.is_audited = True, self.name[0] != "mix"  # after which nothing is left to do beside
            self.made.set_result(made)
        self._release()  # before, unless it stood already or failed; the others may be well
        self._coming.go_on()
        if self.is_audited:
            self._audit(curation)

    def _audit(self, curation: Curation) -> None:
        rank.set(self.rank + LATER)
        try:
            self._stop_if_given_up()
            self.audited.set_result(self._coming.audit(curation, name_of(*self.name)))
        except BaseException as error:  # told to the one who asks
            self.audited.set_exception(self._told(error))

    def _told(self, error: BaseException) -> BaseException:
        """An error holds all it came through, and nobody asks for that of what was given up."""
        return GivenUpError() if self._given_up else error

    def decided(self) -> None:
        pa.default_memory_pool().release_unused()  # what the decision has freed, before the next one takes more
        self._release()
        self._stop_if_given_up()

    def _release(self) -> None:
        if not self.is_decided:
            self.is_decided = True
            self._coming.deciding.release()
            self._coming.go_on()

    def ask(self) -> None:
        self._asked.set()

    def wait(self) -> None:
        self._asked.wait()
        self._stop_if_given_up()

    def _stop_if_given_up(self) -> None:
        if self._given_up:
            raise GivenUpError

    def give_up(self) -> None:
        self._given_up = True
        self._asked.set()
        for told in (self.made, self.audited):
            if told.done() and (error := told.exception()) is not None:
                error.__traceback__ = None
