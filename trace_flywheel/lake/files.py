"""Writing that a reader never sees half done: everything is written under a temporary name, synced, then renamed.

`replace_text` is the only way a pointer (sidecar, `current`, `latest`) changes; `settle` syncs a finished folder and
moves it to its final name. A process killed at any point leaves the old name whole.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
OPEN_FILE, OPEN_FOLDER = 0o644, 0o755
TEMPORARY = ".tmp-"
"""Names that start so are unfinished work: readers skip them, the next writer of the same place removes them."""
STALE_SECONDS = 86_400
"""Age after which a temporary folder is nobody's work any more."""


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def new_file(path: Path, mode: int = OPEN_FILE) -> Iterator[IO[bytes]]:
    """A file that must not exist yet, with exactly `mode`; synced before it closes without an error."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(handle, "wb") as stream:
        os.fchmod(stream.fileno(), mode)
        yield stream
        stream.flush()
        os.fsync(stream.fileno())


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
    sync_folder(path.parent)


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
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            sync_folder(path)
    sync_folder(folder)
    try:
        folder.rename(final)
    except OSError:
        if final.is_dir():  # another writer was first
            return False
        raise
    sync_folder(final.parent)
    return True


def is_temporary(path: Path) -> bool:
    return path.name.startswith(TEMPORARY)


def sweep(base: Path, seconds: float = STALE_SECONDS) -> None:
    """Remove the folders that killed writers left behind, a day later: another writer may be at work now."""
    if not base.is_dir():
        return
    for path in base.iterdir():
        if is_temporary(path) and path.is_dir() and time.time() - path.stat().st_mtime >= seconds:
            shutil.rmtree(path, ignore_errors=True)


def keep_only(base: Path, name: str) -> None:
    """Remove the folders beside the one that is in force; unfinished work stays."""
    for old in base.iterdir():
        if old.is_dir() and old.name != name and not is_temporary(old):
            shutil.rmtree(old)
