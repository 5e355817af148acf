"""Writers that share the lock of a home, each with the runs that it works on.

Dagster queues a second run of one partition behind the first. It knows nothing of ranges: two of them, or a range and a
single run, may hold the same job folder. Each of its steps would take away what the other one reads, and name what is
gone already. So every run is a byte of `<home>/lock-runs`, and who works on runs holds theirs, taken in one order.
"""

import fcntl
import hashlib
import os
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = "lock-runs"
_PLACES = 1 << 40
"""Of which a run has one: two runs with the same one wait for each other without need."""


@contextmanager
def working_on(home: Path, run_ids: Iterable[str]) -> Iterator[None]:
    """Hold these runs; waits for who has one of them, and says so on stderr. Inside of `writing` only."""
    handle = os.open(home / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        for place, run_id in sorted((_place(run_id), run_id) for run_id in run_ids):
            if not _taken(handle, place, wait=False):
                print(f"another flywheel works on {run_id}; waiting for it", file=sys.stderr, flush=True)
                _taken(handle, place, wait=True)
        yield
    finally:
        os.close(handle)


def _place(run_id: str) -> int:
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8], "big") % _PLACES


def _taken(handle: int, place: int, wait: bool) -> bool:
    """Whether the byte is held from now on."""
    try:
        if sys.platform == "linux":  # a lock of the open file, which threads of one process have each their own of
            command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
            fcntl.fcntl(handle, command, struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0))
        else:
            fcntl.lockf(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, place)
    except (BlockingIOError, PermissionError):
        if wait:
            raise
        return False
    return True
