"""Tasks spread over processes, results in the order of the tasks: what comes out never depends on how many there are.

Work starts in this process and moves to a pool once it lasts longer than starting one costs. What a task raises, and
the death of a process, come back as a `Crash` in the task's place: one bad piece never takes the others with it.
"""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from trace_flywheel.flow.children import end_with_the_caller, interruptible, may_have_children
from trace_flywheel.flow.fork_server import context_of, is_started
from trace_flywheel.flow.places import Places
from trace_flywheel.records.errors import FlywheelError

Task = TypeVar("Task")
Result = TypeVar("Result")
Shared = TypeVar("Shared")

PATIENCE = 3.0
"""Seconds of work in this process before a pool pays: starting one takes about two."""
STARTED = 0.1
"""Of the patience, where the server that its processes come from is there."""
AHEAD = 8
"""Tasks a worker that are looked at before the first is begun, where their size is known."""


class Crash(msgspec.Struct, frozen=True):
    """A task that gave no result: why, without a word of the data it worked on."""

    reason: str
    died: bool = False
    """The process died, which no task can catch."""


def patience(workers: int) -> float:
    """Seconds of work in this process before so many pay. One is no faster than this one: it spares it the memory."""
    return PATIENCE * (STARTED if workers > 1 and is_started() else 1.0)


def run_tasks(
    function: Callable[[Shared, Task], Result],
    shared: Shared,
    tasks: Iterable[Task],
    workers: int,
    patient: float | None = None,
    seconds: Callable[[Task], float] | None = None,
) -> Iterator[Result | Crash]:
    """`function(shared, task)` of every task, in order. `shared` goes to each process once.

    `patient`: seconds that this process works alone, else `patience`. `seconds`: about how long a task lasts. Where
    the first ones would outlast the patience, nothing is done here.
    """
    waiting, started = iter(tasks), time.monotonic()
    patient = patience(workers) if patient is None else patient
    if seconds is not None and workers > 1:
        first = list(islice(waiting, AHEAD * workers))
        waiting = chain(first, waiting)
        if sum(map(seconds, first)) > patient:
            patient = -1.0
    for task in waiting:
        if workers > 1 and time.monotonic() - started > patient:
            processes = Processes(function, shared, workers)
            with closing(processes), closing(processes.over(chain([task], waiting))) as results:
                yield from results
            return
        yield guarded(function, shared, task)


class Processes(Generic[Shared, Task, Result]):
    """A pool for sets of tasks, one after another or several from as many threads. It starts with the first task, again
    after `close`, and not after `end`."""

    def __init__(self, function: Callable[[Shared, Task], Result], shared: Shared, workers: int) -> None:
        self._function, self._shared, self._workers = function, shared, workers
        self._pool: ProcessPoolExecutor | None = None
        self._lock, self._is_over = threading.Lock(), False
        # Two pieces a worker, of all threads together: those of the lowest rank come first.
        self._places = Places(2 * workers)

    def over(self, tasks: Iterable[Task], loads: Callable[..., Any] | None = None) -> Generator[Result | Crash]:
        """What the function makes of every task, in order. Closed, it leaves nobody at work. `loads`: a function whose
        module is loaded once for all processes, where that is not the function's own."""
        waiting = iter(tasks)
        under_way: deque[tuple[Task, Future[Any] | None, ProcessPoolExecutor]] = deque()
        try:
            while True:
                pool = self._started(loads)
                try:
                    # Two pieces a worker: a slow reader of results never makes finished ones pile up.
                    for task in islice(waiting, 2 * self._workers - len(under_way)):
                        under_way.append((task, None, pool))
                        under_way[-1] = task, self._submitted(pool, task), pool
                    if not under_way:
                        return
                    _, future, pool = under_way[0]  # another thread may have replaced it meanwhile
                    if future is None:
                        raise BrokenProcessPool
                    result: Result | Crash = future.result()
                except BrokenProcessPool:
                    # Whose fault it was is unknown: everything under way runs again, alone.
                    self._leave(pool)
                    while under_way:
                        yield self._again(*under_way.popleft()[:2])
                    continue
                under_way.popleft()
                yield result
        finally:
            left = [future for _, future, _ in under_way if future is not None and not future.cancel()]
            wait(left)

    def _submitted(self, pool: ProcessPoolExecutor, task: Task) -> Future[Any]:
        self._places.take()
        try:
            future = pool.submit(_in_worker, task)
        except BaseException:
            self._places.give()
            raise
        future.add_done_callback(lambda _: self._places.give())
        return future

    def start(self, task: Task) -> None:
        """Have all of them there before the first task, each with what this one leaves."""
        pool = self._started(None)
        with suppress(BrokenProcessPool):  # the first task comes to the same
            for _ in range(self._workers):
                pool.submit(_in_worker, task)

    def _started(self, loads: Callable[..., Any] | None) -> ProcessPoolExecutor:
        with self._lock:
            if self._is_over:
                raise FlywheelError("the processes that work on it were ended")
            if self._pool is None:
                self._pool = _pool(self._function, self._shared, self._workers, loads)
            return self._pool

    def _leave(self, pool: ProcessPoolExecutor) -> None:
        """A pool that broke. Another thread may have left it already, for a new one."""
        with self._lock:
            if self._pool is pool:
                self._pool = None
        pool.shutdown(cancel_futures=True)

    def _again(self, task: Task, future: Future[Any] | None) -> Result | Crash:
        """What came of a task when a pool broke; where nothing did, it runs alone."""
        if future is not None:
            with suppress(BrokenProcessPool):
                given: Result | Crash = future.result()
                return given
        return run_alone(self._function, self._shared, task)

    def close(self) -> None:
        if (pool := self._pool) is not None:
            self._leave(pool)

    def end(self) -> None:
        """`close` for good: what another thread hands over meanwhile, or later, fails."""
        with self._lock:
            self._is_over = True
        self.close()


def run_alone(function: Callable[[Shared, Task], Result], shared: Shared, task: Task) -> Result | Crash:
    """One task in a process of its own, where this one may start any."""
    if not may_have_children():
        return guarded(function, shared, task)
    with _pool(function, shared, 1) as pool:
        try:
            result: Result | Crash = pool.submit(_in_worker, task).result()
        except BrokenProcessPool:
            return Crash("the process that worked on it died (out of memory, or a crash in a library)", died=True)
        return result


def _pool(
    function: Callable[..., Any], shared: Any, workers: int, loads: Callable[..., Any] | None = None
) -> ProcessPoolExecutor:
    context = context_of(loads or function)
    return ProcessPoolExecutor(workers, context, initializer=_start, initargs=(function, shared))


_work: tuple[Callable[..., Any], Any] | None = None


def _start(function: Callable[..., Any], shared: Any) -> None:
    global _work
    _work = (function, shared)
    end_with_the_caller()


def _in_worker(task: Any) -> Any:
    if _work is None:
        raise RuntimeError("a worker process was not started by _pool")
    with interruptible():
        return guarded(*_work, task)


def guarded(function: Callable[[Shared, Task], Result], shared: Shared, task: Task) -> Result | Crash:
    """What the function makes of a task, or the crash that it ends in."""
    try:
        return function(shared, task)
    except (FlywheelError, OSError) as error:
        return Crash(str(error))
    # The fail-closed boundary of ingestion: a fault nobody foresaw quarantines its run, not all runs.
    except Exception as error:
        return crash_of(error)


def crash_of(error: Exception) -> Crash:
    """A fault nobody foresaw, by its kind and place: its text may quote raw data."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return Crash(f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno}")
