"""Whether a run changed: its files as names, sizes and times. No content is read."""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import msgspec

from trace_flywheel.sources.reader import Run


class RunState(msgspec.Struct, frozen=True):
    """A run's files as names, sizes and times; no content is read."""

    fingerprint: str
    newest_change: float
    """Unix seconds of the latest modification of a file or folder; 0.0 where nothing is left."""
    files: int
    size: int
    identity: str = ""
    """Of all files and folders: names, kinds, inodes, sizes, times. Empty where a link or nothing is among them: what
    stands behind a link may change unseen."""
    newest_touch: float = 0.0
    """Unix seconds at which the latest of them was made or changed in any way, which nobody sets by hand."""

    def rests(self, now: float, seconds: float) -> bool:
        """Whether nothing changed for so many seconds. A modification that has yet to come was set by somebody: then
        the last touch counts. One that has yet to come too is of a clock that was set back, and says nothing."""
        change = self.newest_change if self.newest_change < now + seconds else self.newest_touch
        return abs(now - change) >= seconds


def state(run: Run) -> RunState:
    """Fingerprint, newest change and size of a run in one listing of its files."""
    return state_of(run.path)


def state_of(top: Path) -> RunState:
    """`state` of what lies at a path."""
    entries: list[tuple[str, int, int]] = []
    seen: list[tuple[str, int, int, int, int, int]] = []
    newest = touched = 0
    whole = True
    for name, path in (("", str(top)), *_below_folder(top)):
        try:
            found = os.lstat(path)
        except OSError:  # it vanished, or is what nobody could list
            whole = False
            continue
        newest = max(newest, found.st_mtime_ns)
        touched = max(touched, found.st_ctime_ns)
        seen.append((name, found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
        if stat.S_ISLNK(found.st_mode):
            whole, found = False, _behind(Path(path)) or found
        if not stat.S_ISDIR(found.st_mode):
            entries.append((name, found.st_size, found.st_mtime_ns))
    digest = hashlib.sha256()
    for name, size, modified in sorted(entries):
        digest.update(f"{size} {modified} ".encode() + os.fsencode(name) + b"\0")
    identity = hashlib.sha256(repr(sorted(seen)).encode()).hexdigest() if whole else ""
    size = sum(size for _, size, _ in entries)
    return RunState(digest.hexdigest(), newest / 1e9, len(entries), size, identity, touched / 1e9)


def fingerprint(run: Run) -> str:
    """Changes when a file of the run is added, removed, renamed, resized or touched."""
    return state(run).fingerprint


def is_within(runs: Sequence[Run], size: int) -> bool:
    """Whether the files of all these runs have so many bytes at most; nothing is looked at beyond them."""
    if size < 0:
        return False
    for run in runs:
        for _, path in chain([("", str(run.path))], _below_folder(run.path)):
            with suppress(OSError):  # it vanished, or is what nobody could list
                found = os.lstat(path)
                size -= 0 if stat.S_ISDIR(found.st_mode) else found.st_size
            if size < 0:
                return False
    return True


def newest_change(run: Run) -> float:
    """Unix seconds of the run's latest change, for the caller's quiet time."""
    return state(run).newest_change


def _behind(link: Path) -> os.stat_result | None:
    """The file that a link names: some readers follow links inside the root."""
    try:
        found = link.stat()
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _below_folder(top: Path) -> Iterator[tuple[str, str]]:
    """(POSIX path below `top`, path) of every file, link and folder that is not hidden; no path for what a folder holds
    that cannot be listed."""
    waiting = [("", str(top))]
    while waiting:
        prefix, folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                seen = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError:
            yield prefix, ""
            continue
        for entry in seen:
            yield prefix + entry.name, entry.path
            if entry.is_dir(follow_symlinks=False):
                waiting.append((f"{prefix}{entry.name}/", entry.path))
