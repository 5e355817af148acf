"""Where the trials of a BenchFlow job lie: names and links, and as few opened files as it takes.

A trial is a folder with `result.json` or with captures under `trajectory/`. Trials inside a trial, or below a folder
that holds a solver's checkpoint, are reviewers' runs and evidence, not trials of the job. Folder links are not entered;
a file link is followed as long as it stays below the root.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trace_flywheel.sources.jsonl import Document, read_document
from trace_flywheel.sources.reader import Folder

RESULT = "result.json"
CAPTURES = ("llm_trajectory.jsonl", "acp_trajectory.jsonl")
RESULT_KEYS = frozenset({"rollout_name", "rewards", "agent_result", "task_name", "task_digest", "trajectory_source"})
DOCUMENT_BYTES = 64_000_000


class Listing(msgspec.Struct, frozen=True):
    """What a folder holds: names of its own folders, and of everything else."""

    folders: tuple[str, ...]
    others: frozenset[str]


def listing(path: Path) -> Listing:
    """The folder's names, sorted; nothing for one that cannot be listed."""
    folders, others = [], set()
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                else:
                    others.add(entry.name)
    except OSError:
        return Listing((), frozenset())
    return Listing(tuple(sorted(folders)), frozenset(others))


def has_captures(path: Path) -> bool:
    """Whether BenchFlow's captures lie below this folder."""
    return any(os.path.lexists(path / "trajectory" / name) for name in CAPTURES)


def is_trial(path: Path, held: Listing) -> bool:
    """Whether this folder inside a job is one of its trials."""
    return RESULT in held.others or RESULT in held.folders or has_captures(path)


def is_benchflow(path: Path) -> bool:
    """Whether this folder, found anywhere, is a BenchFlow trial for certain."""
    held = listing(path)
    if has_captures(path):
        return not is_harbor(path)
    if RESULT not in held.others:
        return False
    result = read_result(path, path)
    return isinstance(result, dict) and "trial_name" not in result and bool(RESULT_KEYS & result.keys())


def is_harbor(path: Path) -> bool:
    """Whether a trial's result is Harbor's."""
    result = read_result(path, path) if os.path.lexists(path / RESULT) else None
    return isinstance(result, dict) and "trial_name" in result


def read_result(trial: Path, root: Path) -> Any:
    """The value of a trial's result, None where it cannot be read."""
    document = read_document(inside(trial / RESULT), root, DOCUMENT_BYTES)
    return document.value if isinstance(document, Document) else None


def inside(path: Path) -> Path:
    """The file behind links; whether it lies below the root is checked where it is opened."""
    return Path(os.path.realpath(path))


def holds_trials(folder: Folder) -> bool:
    """Whether a child of this folder is certainly a BenchFlow trial."""
    return any(is_benchflow(folder.path / name) for name in folder.folders)


def trials(path: Path) -> Iterator[Path]:
    """The trial folders of a job (or the trial that the folder is), at any depth, sorted by path."""
    held = listing(path)
    if is_trial(path, held):
        yield path
        return
    if "solver.json" in held.others:
        return
    for name in held.folders:
        yield from trials(path / name)
