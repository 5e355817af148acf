"""Whether this process may start others, how many, and that they end with it."""

import fcntl
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

ROOM = 32
"""Processes and threads that may be started, at least, where work goes to others."""


def worker_count(asked: int) -> int:
    """Processes for `asked`; 0 means one per core that this process may use. 1 where it may start none."""
    if not may_have_children():
        return 1
    if asked:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def may_have_children() -> bool:
    """Whether this process may start others: Celery's forked workers may not, nor may one where processes cannot wait
    for each other (a container without shared memory), or where few more may be there (`ulimit -u`)."""
    return not multiprocessing.current_process().daemon and _has_locks() and _has_room()


@cache
def _has_locks() -> bool:
    try:
        multiprocessing.get_context("fork").Lock()
    except (OSError, ImportError):
        return False
    return True


@cache
def _has_room() -> bool:
    """A pool whose thread cannot start one of its own never answers. Threads count as processes do."""
    waiting, threads = threading.Event(), []
    try:
        for _ in range(ROOM):
            thread = threading.Thread(target=waiting.wait, daemon=True)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        return False
    finally:
        waiting.set()
        for thread in threads:
            thread.join()
    return True


def end_with_the_caller() -> None:
    """From now on this process ends when the one that started it does: killed, that one can tell nobody. And it ends
    without a word at Ctrl-C, which every process of a terminal gets, unless it is at work (`interruptible`)."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    caller = multiprocessing.parent_process()
    if caller is not None and sys.platform == "linux":
        # The kernel ends it (SIGIO) when the caller's end of this pipe closes: a thread waits for the interpreter's
        # lock, which one search through a long text holds for seconds.
        fcntl.fcntl(caller.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(caller.sentinel, fcntl.F_SETFL, fcntl.fcntl(caller.sentinel, fcntl.F_GETFL) | os.O_ASYNC)

    def watch() -> None:
        if caller is not None:
            caller.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def interruptible() -> Iterator[None]:
    """Work in a process that ends with its caller: Ctrl-C interrupts it, so that it takes back what is half made."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
