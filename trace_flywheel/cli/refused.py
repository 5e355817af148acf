"""What the system refuses a command (room, processes, open files, memory), as the one line that tells it."""

import errno

_NO_ROOM = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}
"""A full disk, a limit on the size of files, a quota: writing tells no file name."""

_NO_FILES = {errno.EMFILE, errno.ENFILE}

_SAID_BY_LOADER = ("failed to map segment", "cannot allocate memory", "failed to allocate")
"""How the dynamic loader says, in an ImportError, that a library finds no memory."""

_LIMITS = {
    "processes": (
        "no more processes or threads may be started here; what was there before is whole; raise the limit (`ulimit "
        "-u`, or the container's) and try again"
    ),
    "files": (
        "no more files may be open at once here; what was there before is whole; raise the limit (`ulimit -n`) and try "
        "again"
    ),
    "memory": (
        "no more memory may be had here; what was there before is whole; raise the limit (`ulimit -v`, or the "
        "container's; libraries alone take 1.5 GB of addresses) and try again"
    ),
}


def refusal(error: BaseException) -> str | None:
    """The line for an error that is the system's, or None: what raised it is then the program's fault."""
    if limit := _limit_met(error):
        return _LIMITS[limit]
    if not isinstance(error, OSError):
        return None
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if error.errno in _NO_ROOM:
        return f"{error.strerror}: a file found no room; what was there before is whole; make room and try again"
    return None


def is_of_memory(error: BaseException) -> bool:
    return _limit_met(error) == "memory"


def _limit_met(error: BaseException) -> str | None:
    """Which limit of the process. Of open files it is told whatever file was the first over it."""
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and _loader_says_so(error)):
        return "memory"
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return "processes"
    if not isinstance(error, OSError):
        return None
    if error.errno in _NO_FILES:
        return "files"
    if error.errno == errno.ENOMEM:
        return "memory"
    return "processes" if error.errno == errno.EAGAIN and error.filename is None else None


def _loader_says_so(error: ImportError) -> bool:
    chain: list[BaseException] = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None and before not in chain:
        chain.append(before)
    said = " ".join(map(str, chain)).lower()
    return any(words in said for words in _SAID_BY_LOADER)
