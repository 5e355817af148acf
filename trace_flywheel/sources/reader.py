"""What a source format is: a reader that claims folders, lists the units of a run and reads one unit.

A folder is claimed whole by the first reader, in order of precedence, whose `claims` says so; nothing below it is read
a second time. A unit (a trial folder, a results file) is read by itself, so that runs spread over processes; the units
of a run are sorted by path. Reading yields `Rollout | Drop` and never raises for bad input: a bad file is a Drop with
file, line, reason and the best-known identity, and the rest goes on. No reader follows a link out of its root.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Rollout, Verdict


class ReadOptions(msgspec.Struct, frozen=True):
    """What reading depends on beside the files. Part of a partition's fingerprint."""

    max_line_bytes: int = 64_000_000
    pass_reward: float = 1.0
    verdict_map: dict[str, Verdict] = msgspec.field(default_factory=dict)
    exchanges: bool = True
    """Fill `Rollout.exchanges`; without them a capture is read for its main thread alone, which is much faster."""


class Folder(msgspec.Struct, frozen=True):
    """A listed directory: names only, links to folders left out."""

    path: Path
    folders: tuple[str, ...]
    files: tuple[str, ...]


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
    """POSIX path below the run's root folder (the file or folder itself when the run is one file)."""
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
