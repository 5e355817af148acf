"""What a conversion reads: the units of all jobs below the given paths, in trial path order, cut into pieces of work.

Pieces are cut by size alone, never by how many workers there are, and each belongs to one run.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from trace_flywheel.flow.conversion.rollout import joined
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop
from trace_flywheel.sources.discover import RootError, discover, place_of, units
from trace_flywheel.sources.reader import Run, Unit

PIECE_BYTES = 8_000_000
"""Input of one piece: its rows are held until the writer takes them, in exchange mode about as many bytes again."""
PIECE_UNITS = 64


class Piece(msgspec.Struct, frozen=True):
    """Units of one run that one worker reads in one go."""

    run: Run
    units: tuple[Unit, ...]
    base: str
    """The run's root as the user gave it."""
    jobs: tuple[str, ...]
    """Of each unit the name of its job in group keys."""


class Plan(msgspec.Struct, frozen=True):
    runs: tuple[Run, ...]
    pieces: tuple[Piece, ...]
    problems: tuple[tuple[str, Drop], ...]
    """(root as given, what looked like a job there and is none)."""


def plan_of(paths: Sequence[Path], as_given: bool = False) -> Plan:
    """The plan for these folders and files, in trial path order; `as_given` keeps the order of `paths`.

    Raises `FlywheelError` for a path that does not exist and where there is no job at all.
    """
    if not paths:
        return Plan((), (), ())
    paths = _once(paths)
    try:
        found = discover(dict(_labelled(paths)))
    except RootError as error:
        raise FlywheelError(str(error)) from None
    given = {_root_of(path): _base_of(path) for path in paths}
    problems = tuple((given.get(_start_of(problem, given), ""), problem) for problem in found.problems)
    if not found.runs:
        text = f"; {problems[0][1].path}: {problems[0][1].evidence.get('text')}" if problems else ""
        raise FlywheelError(f"{', '.join(map(str, paths))}: no job found here{text}")
    rank = {root: number for number, root in enumerate(given)} if as_given else {}
    listed = [(run, unit) for run in found.runs for unit in units(run)]
    listed.sort(key=lambda item: (rank.get(item[0].root, 0), f"{_typed(item[1], item[0], given)}/"))
    jobs = job_names([unit.path.parent for _, unit in listed])
    return Plan(found.runs, tuple(_cut(listed, given, jobs)), problems)


def is_job(path: Path) -> bool:
    """Whether a file by itself is a run of some format. A BenchFlow run is a folder, whatever lies beside the file."""
    return any(run.format != "benchflow" for run in discover([path]).runs)


def _typed(unit: Unit, run: Run, given: dict[Path, str]) -> str:
    return joined(given[run.root], unit.path.relative_to(run.root).as_posix())


def job_names(folders: Sequence[Path]) -> dict[Path, str]:
    """What each job folder is called in a group key: its name where there is one job, else its path below the
    folder that all of them share."""
    distinct = sorted(set(folders))
    if len(distinct) == 1:
        return {distinct[0]: distinct[0].name}
    shared = Path(os.path.commonpath([folder.parent for folder in distinct])) if distinct else Path()
    return {folder: folder.relative_to(shared).as_posix() for folder in distinct}


def _once(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The paths without those that an earlier one names too, whatever its spelling."""
    return tuple({os.path.realpath(path): path for path in reversed(paths)}.values())[::-1]


def _labelled(paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    names = [place_of(path).name for path in paths]
    times = Counter(names)
    for path, name in zip(paths, names, strict=True):
        yield (name if times[name] == 1 and name else str(path)), path


def _root_of(path: Path) -> Path:
    place = place_of(path)
    return place if place.is_dir() else place.parent


def _base_of(path: Path) -> str:
    return str(path if path.is_dir() else path.parent)


def _start_of(problem: Drop, given: dict[Path, str]) -> Path:
    return next((root for root in given if (root / (problem.path or "")).exists()), Path())


def _cut(listed: Sequence[tuple[Run, Unit]], given: dict[Path, str], jobs: dict[Path, str]) -> Iterator[Piece]:
    held: list[Unit] = []
    size = 0
    for position, (run, unit) in enumerate(listed):
        held.append(unit)
        size += unit.size
        last = position + 1 == len(listed) or listed[position + 1][0] is not run
        if last or size >= PIECE_BYTES or len(held) >= PIECE_UNITS:
            yield Piece(run, tuple(held), given[run.root], tuple(jobs[one.path.parent] for one in held))
            held, size = [], 0
