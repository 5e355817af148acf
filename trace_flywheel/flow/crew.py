"""The processes of one pass over the lake, kept from dataset to dataset: what a process loads is loaded once.

They start with the first work that lasts longer than starting them, or at once; before that, and where a process may
have no children, everything is done here. One worker has a process too: what decides holds an index and tables, what
finishes rows holds rules and texts, and neither holds both. Results come in the order of the tasks either way.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from multiprocessing.util import Finalize
from threading import Lock
from typing import Any, Generic, TypeVar

from trace_flywheel.flow.children import may_have_children
from trace_flywheel.flow.workers import Crash, Processes, patience
from trace_flywheel.records.errors import FlywheelError

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")

ENDS_FIRST = 100
"""A process that ends closes its queues (at 10) and waits for its children, who wait for work until they are told, by a
queue, that there is none."""


class Crew(Generic[Shared]):
    """`shared` goes to each process once. `at_once`: they are known to pay, and no work is done here before."""

    def __init__(self, shared: Shared, workers: int, at_once: bool = False) -> None:
        self.shared, self._workers, self._at_once = shared, workers, at_once
        self._processes: Processes[Shared, Any, Any] = Processes(_called, shared, workers)
        self._starting, self._is_apart = Lock(), False
        # Known before any is started: a thread of a process that ends would else start some that nobody ends.
        Finalize(self, self._processes.end, exitpriority=ENDS_FIRST)

    def over(
        self, function: Callable[[Shared, Task], Result], tasks: Iterable[Task], seconds: float
    ) -> Iterator[Result]:
        """`function(shared, task)` of every task, in order; about `seconds` of work in all.

        Raises `FlywheelError` where a process died at a task twice, or a task failed in one.
        """
        with self._starting:
            self._is_apart = self._is_apart or self._pays(seconds)
        if not self._is_apart:
            for task in tasks:
                yield function(self.shared, task)
            return
        with closing(self._processes.over(((function, task) for task in tasks), function)) as results:
            for result in results:
                if isinstance(result, Crash):
                    raise FlywheelError(result.reason)
                yield result

    def start(self, function: Callable[[Shared, Task], object], task: Task) -> None:
        """Have the processes there before the first work, where all work is theirs, with what `function(shared, task)`
        leaves in each."""
        if self.works_apart:
            self._is_apart = True
            self._processes.start((function, task))

    @property
    def works_apart(self) -> bool:
        """Whether several processes do all of the work, so that threads of this one may hand it over."""
        return self._at_once and self._workers > 1 and may_have_children()

    def _pays(self, seconds: float) -> bool:
        return may_have_children() and (self._at_once or seconds >= patience(self._workers))

    def each(self, function: Callable[[Task], Result], tasks: Iterable[Task], seconds: float) -> Iterator[Result]:
        """`function(task)` of every task, as `over`."""
        return self.over(_alone, ((function, task) for task in tasks), seconds)


def _alone(_: Any, task: tuple[Callable[[Any], Any], Any]) -> Any:
    function, own = task
    return function(own)


def _called(shared: Any, task: tuple[Callable[[Any, Any], Any], Any]) -> Any:
    function, own = task
    return function(shared, own)
