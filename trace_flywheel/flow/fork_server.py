"""How processes are started: from a fork server, whose imports and memory its processes share.

A program with threads (Dagster) must not fork itself. One server does for all processes of a program: those that it
started ask it for theirs, so that modules are imported once, not once for every process with processes of its own.
"""

import multiprocessing
import multiprocessing.util
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from typing import Any

ROOM_FOR_SOCKETS = 107 - len("/pymp-12345678/listener-12345678")
"""Bytes that the path of a temporary folder may have: a socket's path has 107 at most."""
SPARING = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONSAFEPATH": "1",
}
"""Unless the environment says otherwise: one heap for all threads, Arrow's too. Where each thread and each library has
its own, what one freed is of no use to another: of a process over all runs that was a quarter of its memory. What is
freed is kept for what comes next: capture after capture gave its pages back and had the system clear them anew, which
was a fifteenth of a pass. No threads for matrices, and no module from the current folder (`cli.main`)."""
UNSAID = "ignore:resource_tracker:UserWarning"
"""That a killed process left locks behind: the tracker, which removes them, would tell the terminal."""
STAYING = "trace_flywheel.flow.staying"
"""Imported last: what the server has loaded, no process of its walks, nor the server itself when it ends."""

_starting = threading.Lock()
"""The environment belongs to all threads."""


def context_of(function: Callable[..., Any]) -> Any:
    """How processes that call a function are started."""
    return _context(function.__module__)


def start_ahead(module: str) -> None:
    """Have the server start, and import this module, while the caller does something else."""
    if sys.platform == "linux":
        _context(module)


def is_started() -> bool:
    """Whether a server is there already: a process then starts in a tenth of the time."""
    return getattr(getattr(forkserver, "_forkserver", None), "_forkserver_alive_fd", None) is not None


def _context(module: str) -> Any:
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    _make_room_for_sockets()
    _share_the_server()
    context = multiprocessing.get_context("forkserver")
    # Imported once, by the server: each import costs a process two seconds.
    context.set_forkserver_preload(["__main__", module, STAYING])
    _start()
    return context


def _start() -> None:
    """Have the server run. It ignores Ctrl-C, which every process of a terminal gets, but only once it has imported its
    modules: until then (`STAYING`) the signal waits."""
    server: Any = getattr(forkserver, "_forkserver", forkserver)
    with _starting, _sparing():
        sys.warnoptions.append(UNSAID)  # which a Python that is started gets as arguments
        try:
            resource_tracker.ensure_running()  # is started with the server, and would let the signal through
        finally:
            sys.warnoptions.remove(UNSAID)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            server.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _sparing() -> Iterator[None]:
    """A block that starts programs: what is heeded when one begins. The server hands it down with its memory."""
    unsaid = {name: value for name, value in SPARING.items() if name not in os.environ}
    os.environ.update(unsaid)
    try:
        yield
    finally:
        for name in unsaid:
            del os.environ[name]


def _make_room_for_sockets() -> None:
    """Where `TMPDIR` is too deep for a socket, processes meet in /tmp; nothing else is put there."""
    if len(os.fsencode(tempfile.gettempdir())) > ROOM_FOR_SOCKETS:
        asked, tempfile.tempdir = tempfile.tempdir, "/tmp"
        try:
            multiprocessing.util.get_temp_dir()
        finally:
            tempfile.tempdir = asked


def _share_the_server() -> None:
    """In a process that a server started: ask that server.

    `multiprocessing` says that it does so, but it knows only a server that this process started; a process has the
    address and the pipe of its own. Where a Python keeps them elsewhere, this process starts a server as it would have.
    With its server a process is lost in any case: whoever waits for it hears of its end through the server.
    """
    server: Any = getattr(forkserver, "_forkserver", None)
    its_own = getattr(server, "_forkserver_pid", 0) is not None
    needed = ("_forkserver_address", "_forkserver_alive_fd", *(n for n in vars(server) if n == "_forkserver_authkey"))
    if not its_own and all(getattr(server, name, None) is not None for name in needed):
        server.ensure_running = _runs


def _runs() -> None:
    """In place of starting a server."""
