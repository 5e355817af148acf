"""Processes that outlast a step: the next step of the same process finds them there.

What a step shares among its tasks goes with each of them, packed once, and a process unpacks it for its first. Where
that is much, the step has processes of its own.
"""

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.util import Finalize
from typing import Any, TypeVar

from trace_flywheel.flow.crew import ENDS_FIRST
from trace_flywheel.flow.workers import Crash, Processes, run_tasks

Task = TypeVar("Task")
Result = TypeVar("Result")
Shared = TypeVar("Shared")

MOST_BYTES = 100_000
"""Packed, that go with each task: a thousandth of the time of ten thousand small ones."""

_lasts = False
_kept: tuple[int, Processes[None, Any, Any]] | None = None
"""How many there are, and they."""


@contextmanager
def lasting() -> Iterator[None]:
    """A block whose steps leave their processes to those of the next such block; they end with this process."""
    global _lasts
    _lasts = True
    try:
        yield
    finally:
        _lasts = False


def run_step(
    function: Callable[[Shared, Task], Result],
    shared: Shared,
    tasks: Iterable[Task],
    workers: int,
    seconds: Callable[[Task], float],
) -> Iterator[Result | Crash]:
    """`run_tasks`, by processes that last where this is such a block."""
    packed = zlib.compress(pickle.dumps(shared), 1) if _lasts and workers > 1 else b""
    if not 0 < len(packed) <= MOST_BYTES:
        yield from run_tasks(function, shared, tasks, workers, seconds=seconds)
        return
    with closing(_processes(workers).over((function, packed, task) for task in tasks)) as results:
        yield from results


def _processes(workers: int) -> Processes[None, Any, Any]:
    global _kept
    if _kept is None or _kept[0] != workers:
        processes: Processes[None, Any, Any] = Processes(_with_shared, None, workers)
        Finalize(None, processes.end, exitpriority=ENDS_FIRST)
        _kept = workers, processes
    return _kept[1]


_unpacked: tuple[bytes, Any] | None = None


def _with_shared(_: None, task: tuple[Callable[[Any, Any], Any], bytes, Any]) -> Any:
    global _unpacked
    function, packed, own = task
    if _unpacked is None or _unpacked[0] != packed:
        _unpacked = packed, pickle.loads(zlib.decompress(packed))
    return function(_unpacked[1], own)
