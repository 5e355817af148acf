"""A golden file that may be written to at any moment: read whole or not at all, and known again before rows are
published that were held against it."""

import stat
from pathlib import Path

import msgspec

from trace_flywheel.curation.holdout import fingerprint
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.golden import Golden
from trace_flywheel.sources.goldens import read_goldens

Stamp = tuple[int, int, int, int]
"""Size, times and inode of a file."""
TRIES = 3


class Read(msgspec.Struct, frozen=True):
    """What a file said, and how it may be known to be the same still."""

    stamp: Stamp
    fingerprint: str
    lines: tuple[Golden | Drop, ...]


def stamp_of(path: Path) -> Stamp | None:
    """Of a file that is there; None where none is."""
    try:
        found = path.stat()
    except OSError:
        return None
    is_file = stat.S_ISREG(found.st_mode)
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino) if is_file else None


def read_whole(path: Path) -> Read | None:
    """What a file says that stood still while it was read; None where none is there.

    One that is written to all the time, or cannot be read, says so as its last line.
    """
    for left in reversed(range(TRIES)):
        if (stamp := stamp_of(path)) is None:
            break
        lines = tuple(read_goldens(path))
        try:
            mark = fingerprint(path)
        except OSError:  # its lines tell
            mark = ""
        if stamp_of(path) == stamp:
            return Read(stamp, mark, lines)
        if not left:
            moving = Drop(Stage.READ, "source_changed", {"text": "was written to while it was read"}, path=path.name)
            return Read(stamp, mark, (*lines, moving))
    return None


def is_another(path: Path, stamp: Stamp, known: str) -> bool:
    """Whether a file says something else than when it was read. One that is gone says nothing new."""
    now = stamp_of(path)
    if now in (stamp, None):
        return False
    try:
        return fingerprint(path) != known
    except FileNotFoundError:
        return False
    except OSError:
        return True
