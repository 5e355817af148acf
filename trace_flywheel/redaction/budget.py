"""The time that one record may take: what is not judged by then does not pass.

Detectors and patterns are automata, and every validator is linear in a value of bounded length: only a rule that has
gone wrong comes near the limit, so that no verdict depends on a machine's speed. Two things watch it. After every
judgement the clock is compared. A judgement that never returns is interrupted: in the main thread, where workers
redact, by a timer's signal, which also ends Python's own `re` at work. Elsewhere, and where somebody else uses that
timer, the thread is told to raise, which ends everything that runs as Python.
"""

import ctypes
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from math import inf
from time import monotonic
from types import FrameType

_REAL = getattr(signal, "ITIMER_REAL", 0)
LATER = 0.1
"""Seconds that the interruption leaves to the comparison of the clock, which ends a record between two judgements."""
AGAIN = 1.0
"""Seconds after which the interruption is repeated, for code that swallowed it."""


class RuleTimeoutError(RuntimeError):
    """A rule was at work when the time for a record was over; what is not judged does not pass."""

    def __init__(self, rule: str = "") -> None:
        super().__init__(rule)
        self.rule = rule


class Budget:
    """Of one record. `rule` is the name of the one at work."""

    def __init__(self, seconds: float) -> None:
        self.rule = ""
        self._end = monotonic() + seconds if seconds != inf else inf

    def check(self) -> None:
        """Raises `RuleTimeoutError` when the time is over."""
        if monotonic() > self._end:
            raise RuleTimeoutError(self.rule)

    def enforced(self) -> AbstractContextManager[None]:
        """Interrupts what is at work inside when the time is over, with a `RuleTimeoutError` of the rule at work."""
        if self._end == inf:
            return nullcontext()
        left = max(self._end - monotonic(), 0.0) + LATER
        return _Alarm(self, left) if _timer_is_free() else self._by_thread(left)

    @contextmanager
    def _by_thread(self, left: float) -> Iterator[None]:
        target, done, lock = threading.get_ident(), threading.Event(), threading.Lock()

        def watch() -> None:
            wait = left
            while not done.wait(wait):
                with lock:
                    if not done.is_set():
                        _raise_in(target, RuleTimeoutError)
                wait = AGAIN

        threading.Thread(target=watch, daemon=True, name="redaction-budget").start()
        try:
            yield
        except RuleTimeoutError:
            raise RuleTimeoutError(self.rule) from None
        finally:
            with lock:
                done.set()
            _raise_in(target, None)  # one that is on its way comes no more


class _Alarm:
    """The main thread's timer, set for a budget."""

    def __init__(self, budget: Budget, left: float) -> None:
        self._budget, self._left = budget, left

    def __enter__(self) -> None:
        _at_work.append(self._budget)
        signal.setitimer(_REAL, self._left, AGAIN)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(_REAL, 0)
        _at_work.clear()


UNLIMITED = Budget(inf)


_at_work: list[Budget] = []
"""The record that the main thread is at."""


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    if _at_work:
        raise RuleTimeoutError(_at_work[-1].rule)


@cache
def _installed() -> bool:
    """Whether the timer's signal comes here: for good, because asking each time would cost more than a scan. Where it
    goes to somebody else it stays theirs."""
    if not hasattr(signal, "setitimer") or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        return False
    signal.signal(signal.SIGALRM, _interrupt)
    return True


def _timer_is_free() -> bool:
    """Whether this thread can be interrupted by the timer, and nobody else waits for it."""
    return threading.get_ident() == threading.main_thread().ident and _installed() and not signal.getitimer(_REAL)[0]


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Have a thread raise at its next instruction, or take that back."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error) if error else None)
