"""Calls that are under way before the one who needs them asks, so that no core waits until it does.

Who knows what is going to be asked begins it: one call after the other, all in one process beside this one, whose own
processes go from call to call. Who asks gets what the call gave or raised, as if it had been made then. A question that
is not the next one foreseen ends all that was begun, and so does the end of the block: the process is killed and leaves
what it had landed, as any kill does.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from trace_flywheel.flow import apart, ingest
from trace_flywheel.flow.beside import Beside, is_small
from trace_flywheel.flow.children import may_have_children, worker_count
from trace_flywheel.flow.ingest_tasks import GRADED
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.lasting import lasting
from trace_flywheel.lake.store import Lake
from trace_flywheel.settings import Settings
from trace_flywheel.sources.reader import Run

Call = tuple[Callable[..., Any], tuple[Any, ...]]
Last = tuple[Callable[[], None], Call]
"""A call after all others, of which nobody asks for more than its process, and what its process loads before."""
MOST_RUNS = 1_000
"""Of which one run of Dagster ingests all; of more it is not foreseen which come first."""


def ingestion(
    lake: Lake, settings: Settings, inputs: SideInputs, runs: Sequence[Run], fingerprints: Mapping[str, str]
) -> list[Call]:
    """The calls that the assets of ingestion are going to make over runs that are to do. None where that is not sure,
    or where nobody gave a core for it: with one worker the program that asks would take turns with it."""
    few = not runs or is_small(runs)
    if few or worker_count(settings.ingest.workers) == 1 or not may_have_children() or settings.lake.remote:
        return []
    made = [run for run in runs if lake.sidecar(GRADED, run.run_id) is not None]
    if len(runs) > MOST_RUNS or (made and len(runs) > 1):  # Dagster may know them scattered among others
        return []
    shared, steps = (
        (lake, settings, inputs, None, {run.run_id: fingerprints[run.run_id] for run in runs}),
        (ingest.graded_traces, ingest.redacted_rollouts, ingest.rollout_index),
    )
    return [(ingest.all_of, (shared, (step, list(runs)))) for step in steps]


def publication(settings: Settings, inputs: SideInputs) -> Last:
    """What prepares the process in which the assets over all runs are made."""
    return apart.load, (apart.prepare, (settings, inputs))


class Begun:
    """Calls under way, in the order in which they will be asked for; others may write to the home meanwhile."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._last: Beside | None = Beside(home)
        self._besides = [Beside(home)]
        self._thread = ThreadPoolExecutor(1)
        self._starting: Thread | None = None
        self._left: deque[tuple[Call, Future[Any]]] = deque()
        self._prepared: Future[Any] | None = None

    def begin(self, calls: Sequence[Call], last: Last | None) -> None:
        (beside,) = self._besides
        for call in calls:
            self._left.append((call, self._thread.submit(_made, beside, call)))
        if last is not None and self._last is not None:
            self._prepared = self._thread.submit(_prepared, self._last, last)
            # So that the call does not wait for its process; the server may still be loading.
            self._starting = Thread(target=self._last.start, args=(last[0],), daemon=True)
            self._starting.start()
        self._thread.submit(beside.close)  # beside the last call, which would else wait until its processes are gone

    def take(self, call: Call) -> Future[Any] | None:
        """What this call gives, if it is the next one; all others are ended if it is not."""
        if self._left and self._left[0][0] == call:
            return self._left.popleft()[1]
        self.end()
        return None

    def take_last(self) -> Beside | None:
        """The process of the last call, where all before it were asked for; who takes it ends it."""
        if self._left or self._prepared is None:
            return None
        last, self._last, self._prepared = self._last, None, None
        return last

    def end(self) -> None:
        """Nothing of it is under way any more."""
        self._left.clear()
        for beside in self._besides:
            beside.kill()
        if self._last is not None:
            # What it began beside the call it takes back itself, if there is time for it.
            if self._prepared is None or not self._prepared.done():
                self._last.kill()
            self._besides.append(self._last)
            self._last = self._prepared = None
        self._thread.shutdown(cancel_futures=True)
        if self._starting is not None:
            self._starting.join()
        while self._besides:
            self._besides.pop().close()  # returns when its process is over


def _prepared(beside: Beside, last: Last) -> None:
    load, (function, arguments) = last
    beside.start(load)
    beside.call(function, *arguments)


def _made(beside: Beside, call: Call) -> Any:
    return beside.call(_in_turn, call, shared=True)


def _in_turn(call: Call) -> Any:
    function, arguments = call
    with lasting():
        return function(*arguments)


_begun: Begun | None = None


@contextmanager
def begun(home: Path, calls: Sequence[Call], last: Last | None = None) -> Iterator[None]:
    """A block in which these calls are going to be asked for, by this process, and then the process of the last one."""
    global _begun
    _begun = Begun(home)
    try:
        _begun.begin(calls, last)  # in here: an interrupt may come before all are begun
        yield
    finally:
        _begun.end()
        _begun = None


def taken(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Future[Any] | None:
    """What a call gives that was begun already; None where it was not, and nothing else is under way then."""
    return None if _begun is None else _begun.take((function, arguments))


def taken_process() -> Beside | None:
    """The process that was prepared for what comes after the calls, where there is one."""
    return None if _begun is None else _begun.take_last()
