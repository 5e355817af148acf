"""Opening a file of a source: only where it is a regular file whose real path lies below the root."""

import io
import os
import stat
from pathlib import Path


def open_regular(path: Path, root: Path) -> io.FileIO:
    """Open a regular file below `root` for reading. A link, a FIFO, a device or a way out of the root is an OSError."""
    # Without O_NONBLOCK, opening a FIFO would wait for a writer that may never come.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "is no regular file", str(path))
        if not _is_below(handle, path, root):
            raise OSError(0, "leads out of its root", str(path))
        return io.FileIO(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _is_below(handle: int, path: Path, root: Path) -> bool:
    """What is named below the root without a link on the way there needs no second look; nor what stands in it."""
    real = _real(handle, path)
    if real == str(path) and real.startswith(str(root).rstrip("/") + "/"):
        return True
    return path.parent == root or real.startswith(_real_folder(root).rstrip("/") + "/")


def _real_folder(folder: Path) -> str:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return os.path.realpath(folder)
    try:
        return _real(handle, folder)
    finally:
        os.close(handle)


def _real(handle: int, path: Path) -> str:
    """The path behind links: of what is open, by one question, where the system answers it; else name by name."""
    try:
        return os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115 - of every file: no object for it
    except OSError:
        return os.path.realpath(path)
