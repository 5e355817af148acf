"""Work spread over processes with results in the order of the work, so that bytes never depend on how many there are.

At most two pieces a worker are under way: a slow reader of the results never makes finished ones pile up.
"""

import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TypeVar

from trace_flywheel.records.errors import FlywheelError

Work = TypeVar("Work")
Result = TypeVar("Result")


def worker_count(asked: int) -> int:
    """Processes for `asked`; 0 means one per core that this process may use."""
    if asked:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ordered_map(function: Callable[[Work], Result], work: Iterable[Work], workers: int) -> Iterator[Result]:
    """`map(function, work)` in `workers` processes; in this one where there is one worker or one piece."""
    pieces = iter(work)
    head = list(islice(pieces, 2))
    if workers == 1 or len(head) < 2:
        yield from map(function, head)
        yield from map(function, pieces)
        return
    # A forked worker has all modules imported already; elsewhere forking is unsafe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        under_way: deque[Future[Result]] = deque()
        try:
            for piece in (*head, *islice(pieces, 2 * workers - 2)):
                under_way.append(pool.submit(function, piece))
            while under_way:
                result = under_way.popleft().result()
                under_way.extend(pool.submit(function, piece) for piece in islice(pieces, 1))
                yield result
        except BrokenProcessPool:
            raise FlywheelError("a worker process died, likely for lack of memory; try fewer with --workers") from None
        finally:
            for future in under_way:
                future.cancel()
