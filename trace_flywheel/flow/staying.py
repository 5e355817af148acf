"""Imported after everything else, this module takes what stands by then from Python's collector (`loading`), for this
process and for those that it forks; and a Ctrl-C that came while the modules were imported is forgotten."""

import gc
import signal
import sys
from types import TracebackType


def _said(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Of a process that was asked for by one who is gone, or has no room for it, who tells it himself: nothing."""
    if not isinstance(error, FileNotFoundError | EOFError):
        sys.__excepthook__(kind, error, trace)


gc.freeze()
if signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()):  # `fork_server` blocked it
    # What is ignored is not kept waiting. From now on the server ignores it, and its processes end at it.
    heeded = signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, signal.SIG_DFL if heeded is signal.default_int_handler else heeded)
    sys.excepthook = _said
