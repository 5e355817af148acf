"""Writing that a reader never sees half done: everything is written under a temporary name, synced, then renamed.

`replace_text` is how a pointer (sidecar, `current`, `latest`) changes, where `Lake.land` does not change many together;
`settle` syncs a finished folder, all that is in it, and moves it to its final name. A process killed at any point
leaves the old name whole, and so does a machine that loses its power.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
OPEN_FILE, OPEN_FOLDER = 0o644, 0o755
TEMPORARY = ".tmp-"
"""Names that start so are unfinished work: readers skip them, the next writer of the same place removes them."""
STALE_SECONDS = 86_400
"""Age after which a temporary folder is nobody's work any more."""
SYNCS = 32
"""Syncs under way at once. A disk takes those that wait together with few of its turns: 320 of them took 40 ms instead
of 350. Syncing the whole file system takes one turn and waits for what all other programs wrote: up to 1,400 ms."""


def sync(paths: Iterable[Path]) -> None:
    """Make files and folders durable: of a file what it holds, of a folder the names in it."""
    waiting = list(paths)
    if len(waiting) == 1:
        _sync(waiting[0])
    elif waiting:
        with ThreadPoolExecutor(min(SYNCS, len(waiting))) as threads:
            for done in [threads.submit(_sync, path) for path in waiting]:
                done.result()


@contextmanager
def syncing() -> Iterator[Callable[[Path], object]]:
    """Files are handed over as they are written, and synced while others are; all are durable at the end."""
    with ThreadPoolExecutor(SYNCS) as threads:
        handed: list[Future[None]] = []
        yield lambda path: handed.append(threads.submit(_sync, path))
        for done in handed:
            done.result()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def new_file(path: Path, mode: int = OPEN_FILE) -> Iterator[IO[bytes]]:
    """A file that must not exist yet, with exactly `mode`. Who gives it its final name syncs it before, as `settle`."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(handle, "wb") as stream:
        os.fchmod(stream.fileno(), mode)
        yield stream


def replace_text(path: Path, text: str, mode: int = OPEN_FILE) -> None:
    """Replace a small file whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync([path.parent])


def make_folder(path: Path, mode: int = OPEN_FOLDER) -> None:
    """A folder with exactly `mode`; parents are made as the umask says."""
    path.mkdir(parents=True, exist_ok=True)
    if path.stat().st_mode & 0o777 != mode:
        path.chmod(mode)


@contextmanager
def workplace(parent: Path, mode: int = OPEN_FOLDER) -> Iterator[Path]:
    """A temporary folder below `parent`; what is still there at the end is removed."""
    make_folder(parent, mode)
    folder = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=parent))
    folder.chmod(mode)
    try:
        yield folder
    finally:
        if folder.exists():
            shutil.rmtree(folder)


def settle(folder: Path, final: Path) -> bool:
    """Move a finished folder to its final name. False when it exists: names are content, so it is the same."""
    if final.exists():
        return False
    sync(whole(folder))
    moved = move(folder, final)
    sync([final.parent])
    return moved


def whole(folder: Path) -> list[Path]:
    """A folder and all that is in it: what must be durable before it takes its name."""
    return [folder, *sorted(folder.rglob("*"))]


def move(folder: Path, final: Path) -> bool:
    """Rename a folder. False when its name is taken: names are content, so it is the same."""
    try:
        folder.rename(final)
    except OSError:
        if final.is_dir():
            return False
        raise
    return True


def clear(path: Path, folder: bool = True) -> None:
    """Remove what stands where only a folder may, or only a file: nobody can have kept anything of the lake in it."""
    if path.is_dir() != folder and os.path.lexists(path):
        remove(path)


def remove(path: Path) -> None:
    """Whatever it is; of a link the link alone."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def is_temporary(path: Path) -> bool:
    return path.name.startswith(TEMPORARY)


def sweep(base: Path, seconds: float = STALE_SECONDS) -> None:
    """Remove what killed writers left behind, a day later: another writer may be at work now."""
    if not base.is_dir():
        return
    for path in base.iterdir():
        try:
            stale = is_temporary(path) and time.time() - path.stat().st_mtime >= seconds
        except FileNotFoundError:  # it was somebody's work
            continue
        if stale and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif stale:
            path.unlink(missing_ok=True)


def sweep_below(top: Path, seconds: float, without: str = "") -> None:
    """Remove unfinished work of this age wherever it is below a folder, but for one folder in it. Files of its own wait
    a day: some are replaced by those who hold no lock."""
    sweep(top)
    for entry in _entries(top):
        if entry.is_dir(follow_symlinks=False) and entry.name != without:
            _sweep_folder(entry, seconds)


def _sweep_folder(folder: "os.DirEntry[str]", seconds: float) -> None:
    if not folder.name.startswith(TEMPORARY):
        for entry in _entries(folder):
            if entry.is_dir(follow_symlinks=False):
                _sweep_folder(entry, seconds)
            elif entry.name.startswith(TEMPORARY):
                _sweep_entry(entry, seconds)
    else:
        _sweep_entry(folder, seconds)


def _sweep_entry(entry: "os.DirEntry[str]", seconds: float) -> None:
    with suppress(OSError):  # what cannot be removed is in nobody's way
        # Where any age will do, so does one of a clock that was set back.
        if seconds <= 0 or time.time() - entry.stat(follow_symlinks=False).st_mtime >= seconds:
            remove(Path(entry.path))


def _entries(folder: "Path | os.DirEntry[str]") -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def keep_only(base: Path, name: str) -> None:
    """Remove the folders beside the one that is in force; unfinished work stays."""
    for old in base.iterdir():
        if old.is_symlink() and old.name != name:
            old.unlink()
        elif old.is_dir() and old.name != name and not is_temporary(old):
            doomed = base / f"{TEMPORARY}{old.name}"  # killed halfway, it is never taken for whole again
            shutil.rmtree(doomed, ignore_errors=True)
            old.rename(doomed)
            shutil.rmtree(doomed)
