"""What a source format is: a reader that claims folders, lists the units of a run and reads one unit.

A folder is claimed whole by the first reader, in order of precedence, whose `claims` says so; nothing below it is read
a second time. A unit (a trial folder, a results file) is read by itself, so that runs spread over processes; the units
of a run are sorted by path. Reading yields `Rollout | Drop` and never raises for bad input: a bad file is a Drop with
file, line, reason and the best-known identity, and the rest goes on. No reader follows a link out of its root.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.rollout import Rollout, Verdict
from trace_flywheel.sources.walked import walked


class ReadOptions(msgspec.Struct, frozen=True):
    """What reading depends on beside the files. Part of a partition's fingerprint."""

    max_line_bytes: int = 64_000_000
    pass_reward: float = 1.0
    verdict_map: dict[str, Verdict] = msgspec.field(default_factory=dict)
    exchanges: bool = True
    """Fill `Rollout.exchanges`; without them a capture is read for its main thread alone, which is much faster."""


class Folder(msgspec.Struct, frozen=True):
    """A listed directory: names only. What is hidden or a link stands apart; readers claim by the other two."""

    path: Path
    folders: tuple[str, ...]
    files: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    """Hidden folders."""
    links: tuple[str, ...] = ()
    """Links to folders, to files and to nothing."""
    others: tuple[str, ...] = ()
    """Pipes, sockets and devices."""


class Run(msgspec.Struct, frozen=True):
    """A job folder (or export file) found below a root: the unit of ingestion, one Dagster partition."""

    run_id: str
    format: str
    root: Path
    path: Path
    finished: bool = True
    """By the format's marker; sensors wait for it and for quiet time, `refresh` and `convert` do not."""


class Unit(msgspec.Struct, frozen=True):
    """What is read in one go. `path` is a file or a folder."""

    path: Path
    relative: str
    """POSIX path below the run's `root`, `.` for a run that is its root: what data says about a place."""
    size: int
    """Bytes to read, about: for spreading work."""


class Reader(Protocol):
    """One per format, found as `READER` in its module. `precedence`: the smaller one is asked first."""

    format: str
    precedence: int

    def claims(self, folder: Folder) -> bool:
        """Whether this folder is a run of this format. Looks at names first and opens as few files as it can.

        A path that is one file is asked for as a folder that holds this file only; the run's `path` is then the file.
        """
        ...

    def finished(self, folder: Folder) -> bool:
        """Whether the format's own marker says that the run is complete; quiet time is the caller's."""
        ...

    def units(self, run: Run) -> Sequence[Unit]: ...

    def read(self, run: Run, unit: Unit, options: ReadOptions) -> Iterator[Rollout | Drop]: ...


def job_of(run: Run) -> str:
    """What the data calls the job folder: the last part of the run id."""
    return run.run_id.rsplit("/", 1)[-1]


def dropped(run: Run, unit: Unit, reason: str, evidence: dict[str, Any], **identity: str | None) -> Drop:
    """A drop of stage `read` with the unit's place; `identity` is trace_id, task_id, agent and model as known."""
    path = printable(unit.relative)
    return Drop(Stage.READ, reason, evidence, run_id=run.run_id, job=job_of(run), path=path, **identity)


NAME_FAULT = "the path is not UTF-8; rename it"
"""No row, table or JSON document could name where its rollouts came from."""


def printable(name: str) -> str:
    r"""A file's name or path as text that can be written anywhere: bytes that are not UTF-8 as `\xff`."""
    return os.fsencode(name).decode(errors="backslashreplace")


def is_nameable(path: Path) -> bool:
    """Whether the path can stand in a document: it is UTF-8."""
    return printable(str(path)) == str(path)


def listed(path: Path) -> Folder:
    """What a folder holds, sorted; hidden files are nobody's. Raises OSError."""
    folders: list[str] = []
    files: list[str] = []
    hidden: list[str] = []
    links: list[str] = []
    others: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                (hidden if entry.name.startswith(".") else folders).append(entry.name)
            elif entry.name.startswith("."):
                continue
            elif entry.is_symlink():
                links.append(entry.name)
            else:
                (files if entry.is_file(follow_symlinks=False) else others).append(entry.name)
    return Folder(path, *(tuple(sorted(names)) for names in (folders, files, hidden, links, others)))


def noting_surrogates(rollout: Rollout, count: int) -> Rollout:
    """The rollout with the number of lone surrogates that reading replaced by U+FFFD in its metadata."""
    if not count:
        return rollout
    return msgspec.structs.replace(rollout, metadata={**(rollout.metadata or {}), "replaced_surrogates": count})


def files_below(folder: Path, links: bool = False, folders: tuple[str, ...] = ()) -> Iterator[Path]:
    """Every file below a folder, hidden ones apart, in no particular order; links only where asked for, and so are
    folders with these endings, which stand where a file should."""
    for top, below, files in walked(folder):
        below[:] = [name for name in below if not name.startswith(".")]
        yield from (Path(top, name) for name in below if name.endswith(folders))
        for name in files:
            path = Path(top, name)
            if not name.startswith(".") and (links or not path.is_symlink()):
                yield path


def size_of(path: Path) -> int:
    """Bytes of a file; 0 where it is gone."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def text_or_none(value: Any) -> str | None:
    """A text that says something, else None."""
    return value if isinstance(value, str) and value else None
