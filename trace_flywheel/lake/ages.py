"""The versions of a dataset in the order of their publication, which the dates of their folders tell.

A clock may be set back between two publications, and an erasure may write to an old version: neither changes the order.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from trace_flywheel.lake.files import TEMPORARY


def date(folder: Path) -> None:
    """Have the version that was published now be the newest by its date too, whatever the clock says."""
    others = (other.stat().st_mtime_ns for other in folders(folder.parent) if other != folder)
    newest = max(others, default=0)
    if folder.stat().st_mtime_ns <= newest:
        os.utime(folder, ns=(newest + 1, newest + 1))


def folders(base: Path) -> Iterator[Path]:
    if base.is_dir():
        yield from (p for p in base.iterdir() if p.is_dir() and not p.name.startswith(TEMPORARY))


def by_age(base: Path) -> list[Path]:
    """By the time of publication."""
    return sorted(folders(base), key=lambda p: (p.stat().st_mtime_ns, p.name))
