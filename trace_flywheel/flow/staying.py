"""Imported after everything else, this module takes what stands by then from Python's collector (`loading`), for this
process and for those that it forks; and a Ctrl-C that came while the modules were imported is forgotten."""

import gc
import signal

gc.freeze()
if signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()):  # `fork_server` blocked it
    # What is ignored is not kept waiting. From now on the server ignores it, and its processes heed it.
    heeded = signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, heeded)
