"""A job folder that may still be written: where it is, whether it runs, and which results are new.

Running is what the evaluation's lock says: a lock whose process is gone on this host is a job that died, a lock alone
one that runs, none with a `summary.json` one that finished, none at all one that has not begun or is between the two.
"""

import os
import socket
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.sources import benchflow_folders as folders
from trace_flywheel.sources.jsonl import Document, read_document

LOCK = ".evaluation.lock"
MARKS = (LOCK, "evaluation.json")


class State(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    DIED = "died"


class Found(msgspec.Struct, frozen=True):
    """A result file as it lies there: enough to see whether it changed, nothing of it read."""

    path: Path
    relative: str
    stamp: tuple[int, int, int]
    """Modification time in ns, size, inode."""


def job_of(path: Path) -> Path:
    """The job that is meant: the folder, or the only marked job inside it. Raises `FlywheelError` for several."""
    if is_marked(path):
        return path
    inside = [path / name for name in folders.listing(path).folders]
    marked = [folder for folder in inside if is_marked(folder)]
    if len(marked) > 1:
        names = ", ".join(folder.name for folder in marked)
        raise FlywheelError(f"{path}: holds several jobs ({names}); give one of them")
    return marked[0] if marked else path


def is_marked(folder: Path) -> bool:
    """Whether a job's own files lie there; a folder that may not be looked into is no job to follow."""
    return not folders.listing(folder).others.isdisjoint(MARKS)


def state_of(job: Path) -> State:
    """What the job's own files say."""
    if (job / LOCK).exists():
        document = read_document(job / LOCK, job, folders.DOCUMENT_BYTES)
        value = document.value if isinstance(document, Document) else None
        holder = value if isinstance(value, dict) else {}
        pid, host = holder.get("pid"), holder.get("host")
        here = host in (None, socket.gethostname())
        return State.DIED if here and isinstance(pid, int) and not _alive(pid) else State.RUNNING
    return State.FINISHED if (job / "summary.json").exists() else State.WAITING


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def results(job: Path) -> list[Found]:
    """The trials that have a result file, in the order of its modification time, then path."""
    return sorted(_results(job), key=lambda found: (found.stamp[0], found.relative))


def _results(job: Path) -> Iterator[Found]:
    for trial in folders.trials(job):
        try:
            stat = (trial / folders.RESULT).stat()
        except OSError:
            continue
        stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        yield Found(trial, trial.relative_to(job).as_posix(), stamp)
