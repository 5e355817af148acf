"""What discovery does not enter and must not pass over in silence: hidden folders and links.

A hidden folder belongs to a tool as a rule, so it is not read; where it holds a run, that is told, and naming it as a
root reads it. A link is not followed by discovery, because it may lead anywhere; one that stands where a run's file
would, or that leads to a folder outside the root, is told; so is a folder or a pipe in such a place. Folders that only
tools write, and a flywheel's own home, hold no runs.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from trace_flywheel.sources import registry
from trace_flywheel.sources.reader import Folder, listed

TOOLS = frozenset({".git", ".hg", ".svn", ".venv", ".tox", ".cache", "node_modules", "__pycache__"})
RESULT_FILES = frozenset({"result.json", "results.json", "results.jsonl"})
RUN_MARKS = RESULT_FILES | {"trajectory.json"}
HOME_FOLDERS = frozenset({"lake", "datasets", "dagster"})
"""What a flywheel writes below its home; a home that is also a root is entered beside them."""
SIDE_FILES = frozenset({"goldens.jsonl", "corrections.jsonl"})


def marks(names: tuple[str, ...]) -> list[str]:
    """The names that a run's files have."""
    return [
        name
        for name in names
        if name in RUN_MARKS or (name.endswith((".jsonl", ".atraj", ".atraj.gz")) and name not in SIDE_FILES)
    ]


def is_home(folder: Path) -> bool:
    """Whether this is a flywheel's home: its lake, or the datasets it published, stand here."""
    return (folder / "lake" / "format").is_file() or any((folder / "datasets").glob("*/latest"))


def unvisited(folder: Folder, root: Path) -> Iterator[tuple[Path, str]]:
    """What of a folder that nobody claims is left unread, and what to do about it."""
    for name in folder.hidden:
        path = folder.path / name
        if name not in TOOLS and _holds_run(path):
            yield path, "hidden folder: name it as a root to read it"
    for name in marks(folder.folders):
        if not _holds_run(folder.path / name):
            yield folder.path / name, "is a folder, where a run has a file of this name"
    for name in marks(folder.others):
        yield folder.path / name, "is no regular file: put the file here"
    named = marks(folder.links)
    for name in folder.links:
        path = folder.path / name
        if name in named:
            yield path, "is a link, which is not followed: put the file here, or name its folder as a root"
        elif path.is_dir() and not _is_below(path, root):
            yield path, "leads out of the root and is not followed: name the folder behind it as a root"


def _holds_run(top: Path) -> bool:
    """Whether a run lies in this folder, at any depth, hidden folders included."""
    waiting = [top]
    while waiting:
        path = waiting.pop()
        try:
            folder = listed(path)
        except OSError:
            continue
        if is_home(path):
            continue
        if registry.claimed_by(folder) is not None:
            return True
        waiting += [path / name for name in (*folder.folders, *folder.hidden) if name not in TOOLS]
    return False


def _is_below(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
