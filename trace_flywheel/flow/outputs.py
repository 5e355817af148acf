"""Where a command writes, checked before it reads anything: `-` is stdout, anything else a file to be replaced."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from trace_flywheel.flow.atomic import replaced
from trace_flywheel.records.errors import FlywheelError, UsageError
from trace_flywheel.sources.unvisited import RUN_MARKS, SIDE_FILES

STDOUT = Path("-")
CAPTURES = frozenset({"llm_trajectory.jsonl", "acp_trajectory.jsonl", "config.json", "prompts.json", "rewards.jsonl"})
RECORDED = RUN_MARKS | SIDE_FILES | CAPTURES | {"summary.json", "tree.json"}
"""Names that an agent's run gives its files. Replacing one below the input would destroy the only copy."""


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[Path], folder: bool = False) -> None:
    """Raise `UsageError` for two options that name one file and `FlywheelError` for a path that cannot be written.

    `outputs` are paths by option, `folder` says that the first of them may be a folder.
    """
    taken: dict[Path, str] = {}
    read = {path.resolve() for path in inputs}
    for position, (option, path) in enumerate((o, p) for o, p in outputs.items() if p is not None):
        may_be_folder = folder and position == 0
        if path == STDOUT and not may_be_folder:
            place = STDOUT
        else:
            place = path.resolve()
            _check(path, place, option, read, may_be_folder)
        other = taken.setdefault(place, option)
        if other != option:
            raise UsageError(f"{option} and {other} are the same file {path}; give one of them another name")


def _check(path: Path, place: Path, option: str, read: set[Path], may_be_folder: bool) -> None:
    if place in read:
        raise FlywheelError(f"{path}: is the input; give {option} another name")
    recorded = place.name in RECORDED or place.name.endswith((".atraj", ".atraj.gz"))
    if recorded and place.is_file() and not read.isdisjoint(place.parents):
        raise FlywheelError(f"{path}: is part of the input; give {option} another name")
    if path.is_dir() and not may_be_folder:
        raise FlywheelError(f"{path}: is a folder; give {option} the name of a file")
    if path.exists() and not path.is_dir() and not path.is_file():
        raise FlywheelError(f"{path}: is no regular file, so it cannot be replaced; `{option} -` writes to stdout")
    above = next(parent for parent in place.parents if parent.exists())
    if not above.is_dir():
        raise FlywheelError(f"{path}: {above} is a file, not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise FlywheelError(f"{path}: {above} is not writable")


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """A file that takes `path`'s place when the block ends well; for `-` its bytes go to stdout then."""
    if path != STDOUT:
        with replaced(path) as file:
            yield file
        return
    with tempfile.TemporaryFile() as spool:
        yield cast(BinaryIO, spool)
        spool.seek(0)
        shutil.copyfileobj(spool, sys.stdout.buffer)
        sys.stdout.buffer.flush()
