"""One process beside this one, kept for several calls: what they load and hold ends with it, not with the caller.

A call gives what its function returns or raises. The process never outlives its caller: it looks out for the caller's
end and takes its own, and holds a lock of the home while it works, for which the next writer waits (`lake.lock`).
Where no process may be started (Celery's daemonic workers), calls are made here.
"""

import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from trace_flywheel.flow.children import end_with_the_caller, interruptible, may_have_children
from trace_flywheel.flow.fork_server import context_of
from trace_flywheel.lake.lock import leave, working
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.sources.reader import Run
from trace_flywheel.sources.run_state import is_within

Result = TypeVar("Result")

SMALL_BYTES = 4_000_000
"""Of source that is worked on where the caller is: another process would take longer to start."""


def is_small(runs: Sequence[Run]) -> bool:
    """Whether a step over these runs needs no process beside."""
    return is_within(runs, SMALL_BYTES)


class Beside:
    """The process; it starts with the first call and ends with `close`, or with this process."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._pool: ProcessPoolExecutor | None = None
        self._starting, self._killed = Lock(), False

    def call(self, function: Callable[..., Result], *arguments: Any, shared: bool = False) -> Result:
        """`function(*arguments)` over there. `shared`: others may write to the home meanwhile, as under `writing`.
        Raises `FlywheelError` where the process died."""
        if not may_have_children():
            return function(*arguments)
        with self._starting:
            if self._killed:
                raise FlywheelError("the process that was to work on it was ended")
            try:
                made = self._submitted(function, arguments, shared)
            except BrokenProcessPool:  # it died between two calls, of which none is lost
                self._pool = None
                made = self._submitted(function, arguments, shared)
        try:
            result, error = made.result()
        except BrokenProcessPool:
            self._pool = None
            leave(self._home)
            raise FlywheelError("the process that worked on it died (out of memory, or a crash in a library)") from None
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return] # what the function returned

    def _submitted(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], shared: bool
    ) -> Future[tuple[Any, Exception | None]]:
        if self._pool is None:
            self._pool = self._new_pool(function)
        return self._pool.submit(_called, self._home, shared, function, arguments)

    @staticmethod
    def _new_pool(function: Callable[..., Any]) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=context_of(function), initializer=end_with_the_caller)

    def start(self, load: Callable[[], None]) -> None:
        """Have the process there, with what `load` loads, before the first call; nothing is written by it.
        Where the system refuses it, the first call tells."""
        with self._starting, suppress(OSError, RuntimeError):
            if may_have_children() and not self._killed and self._pool is None:
                pool = self._new_pool(load)
                pool.submit(load)
                self._pool = pool

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def kill(self) -> None:
        """End the process whatever it does, from another thread; what is called then, or later, raises."""
        with self._starting:
            self._killed = True
            for process in list(self._processes()):
                leave(self._home)
                process.kill()

    def _processes(self) -> Iterable[Any]:
        # `concurrent.futures` has a way to kill them from Python 3.14 on.
        return (getattr(self._pool, "_processes", None) or {}).values()


def _called(
    home: Path, shared: bool, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Any, Exception | None]:
    try:
        with interruptible(), working(home, shared):
            return function(*arguments), None
    except Exception as error:  # raised again by the caller, without a chain that would hide it
        if not isinstance(error, FlywheelError | OSError):  # a full disk is told in one line
            error.add_note("".join(traceback.format_tb(error.__traceback__)))
        return None, error
