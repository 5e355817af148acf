"""One writer of a home at a time: an advisory lock on `<home>/lock`, which ends with the process that holds it.

A pass that ingests and publishes holds it alone; ingestion runs of Dagster share it, and each holds the job folders
that it works on (`run_lock`). Readers need none: pointers change whole.

The file says that somebody writes, until he has ended. Who finds it so and is alone removes what is unfinished: its
writer was killed, or interrupted while he removed it himself.
"""

import errno
import fcntl
import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from trace_flywheel.lake.files import STALE_SECONDS, sweep_below
from trace_flywheel.lake.sidecar import LakeError

WORKER = "lock-worker"
MARK, AT_WORK = 16, b" at work\n"
"""In the lock file: so many bytes by which the last writer is known, and these until it has ended well."""
_held: set[Path] = set()
"""Homes that this process holds, or works for who does: a step inside a pass writes under the pass's lock."""
_left: set[Path] = set()
"""Homes in which a process was killed that wrote for this one."""


@contextmanager
def writing(home: Path, shared: bool = False) -> Iterator[bytes]:
    """Hold the lock of a home; waits for who has it and says so on stderr. Gives the `mark` of whoever had it before.
    `LakeError` where nothing can be written."""
    place = home.absolute()
    if place in _held:
        yield mark(home)
        return
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        # A process that is to help runs the caller's script again, which would wait here for its caller for ever.
        raise LakeError('this script writes to a home when it is imported; put it under `if __name__ == "__main__":`')
    try:
        place.mkdir(parents=True, exist_ok=True)
        handle = _opened(place / "lock")
    except OSError as error:
        raise LakeError(f"{home}: cannot be written ({error.strerror}); mend it or give another --home") from None
    try:
        waiting = f"another flywheel writes to {home}; waiting for it"
        _take(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, waiting)
        with _locked(place / WORKER, shared, waiting):  # whoever held the lock before is gone: so is its helper then
            pass
        before = os.pread(handle, MARK + len(AT_WORK), 0)
        if not shared and before[MARK:]:
            _sweep(place)
        _held.add(place)
        with _at_work(handle, shared, place):
            yield before[:MARK]
    finally:
        _held.discard(place)
        os.close(handle)


@contextmanager
def _at_work(handle: int, shared: bool, place: Path) -> Iterator[None]:
    _leave_mark(handle, AT_WORK)
    ended = AT_WORK if shared else b""  # another one that shares it may be at work still
    try:
        yield
    except Exception:
        raise
    except BaseException:
        ended = AT_WORK
        raise
    finally:
        if place in _left:
            _left.remove(place)
            ended = AT_WORK
        _leave_mark(handle, ended)


def leave(home: Path) -> None:
    """A process that wrote to a home for this one was killed: the next writer looks for what it left unfinished."""
    _left.add(home.absolute())


def _sweep(home: Path) -> None:
    """Remove unfinished work, where nobody else writes. What the object store has, readers too bring here; and who
    indexes corpora has a lock of his own."""
    from trace_flywheel.lake.remote_state import FILE

    seconds = STALE_SECONDS if (home / FILE).is_file() else 0.0
    sweep_below(home / "lake", seconds, without="corpora")
    sweep_below(home / "datasets", seconds)


def mark(home: Path) -> bytes:
    """Another one whenever somebody begins to write to a home, and ends; none before anybody did."""
    try:
        if not (home / "lock").is_file():  # a pipe would never end
            return b""
        with (home / "lock").open("rb") as file:
            return file.read(MARK)
    except OSError:
        return b""


def _leave_mark(handle: int, state: bytes) -> None:
    with suppress(OSError):  # a full disk: who had looked before looks no second time, and finds things done
        os.pwrite(handle, os.urandom(MARK // 2).hex().encode() + state, 0)
        os.truncate(handle, MARK + len(state))


def held(home: Path) -> bool:
    """Whether this process is inside `writing` of a home."""
    return home.absolute() in _held


@contextmanager
def working(home: Path, shared: bool = False) -> Iterator[None]:
    """Hold what the next writer waits for, in a process that writes for one that holds `writing`: should that one be
    killed, its lock is free at once, and this process needs a moment to see it and end."""
    place = home.absolute()
    with _locked(place / WORKER, shared, f"another flywheel ends its work in {home}; waiting for it"):
        new = {place} - _held
        _held.update(new)
        try:
            yield
        finally:
            _held.difference_update(new)


@contextmanager
def at_rest(home: Path) -> Iterator[bool]:
    """Whether nobody else writes to a home, nor will before the block ends: what a reader asks before it puts something
    there for later readers. False too where the lock cannot be had."""
    place = home.absolute()
    with ExitStack() as kept:
        try:
            for name in () if place in _held else ("lock", WORKER):
                handle = _opened(place / name)
                kept.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            kept.close()
            yield False
        else:
            yield True


@contextmanager
def _locked(path: Path, shared: bool, waiting: str) -> Iterator[None]:
    handle = _opened(path)
    try:
        _take(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, waiting)
        yield
    finally:
        os.close(handle)


@contextmanager
def locked(path: Path, waiting: str) -> Iterator[None]:
    """Hold a lock file alone; `waiting` is said on stderr while another process has it."""
    with _locked(path, shared=False, waiting=waiting):
        yield


def _opened(path: Path) -> int:
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no file", str(path))
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _take(handle: int, mode: int, waiting: str) -> None:
    try:
        fcntl.flock(handle, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        print(waiting, file=sys.stderr, flush=True)
        fcntl.flock(handle, mode)
