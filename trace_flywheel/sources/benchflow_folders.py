"""Where the trials of a BenchFlow job lie: names and links, and as few opened files as it takes.

A trial is a folder with `result.json` or with captures under `trajectory/`; one that has only begun has its name,
`<task>__<hash>`, and its configuration. Trials inside a trial, or below a folder
that holds a solver's checkpoint, are reviewers' runs and evidence, not trials of the job. Folder links are not entered;
a file link is followed as long as it stays below the root.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trace_flywheel.sources.jsonl import Document, Fault, read_document
from trace_flywheel.sources.reader import Folder

RESULT = "result.json"
LLM = "trajectory/llm_trajectory.jsonl"
ACP = "trajectory/acp_trajectory.jsonl"
RESULT_KEYS = frozenset({"rollout_name", "rewards", "agent_result", "task_name", "task_digest", "trajectory_source"})
DOCUMENT_BYTES = 64_000_000


class Listing(msgspec.Struct, frozen=True):
    """What a folder holds: names of its own folders, and of everything else."""

    folders: tuple[str, ...]
    others: frozenset[str]
    denied: bool = False
    """It may not be listed: what it holds is unknown, and not nothing."""


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
    except OSError as error:
        return Listing((), frozenset(), isinstance(error, PermissionError))
    return Listing(tuple(sorted(folders)), frozenset(others))


def is_denied(path: str) -> bool:
    """Whether a folder may not be listed."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


def has_captures(path: Path) -> bool:
    """Whether BenchFlow's captures lie below this folder."""
    return any(os.path.lexists(f"{path}/{name}") for name in (LLM, ACP))


def is_trial(path: Path, held: Listing) -> bool:
    """Whether this folder inside a job is one of its trials."""
    begun = "__" in path.name and ("config.json" in held.others or held.denied)
    return RESULT in held.others or RESULT in held.folders or begun or has_captures(path)


def is_benchflow(path: Path) -> bool | None:
    """Whether this folder, found anywhere, is a BenchFlow trial; None for one that is nobody's trial for certain."""
    held = listing(path)
    result = read_result(path, path) if RESULT in held.others else None
    if isinstance(result, dict):
        if "trial_name" in result:
            return False  # Harbor's
        if RESULT_KEYS & result.keys():
            return True
    # Names first: of ten thousand folders that are nobody's trial nothing more is asked.
    may = held.denied or "trajectory" in held.folders or "trajectory" in held.others
    return True if may and has_captures(path) else None


def read_result(trial: Path, root: Path) -> Any:
    """The value of a trial's result, None where it cannot be read."""
    document = document_at(trial / RESULT, root, DOCUMENT_BYTES)
    return document.value if isinstance(document, Document) else None


def inside(path: Path) -> Path:
    """The file behind links; whether it lies below the root is checked where it is opened."""
    return Path(os.path.realpath(path)) if os.path.islink(path) else path  # noqa: PTH114 - of every file


def document_at(path: Path, root: Path, max_bytes: int) -> Document | Fault:
    """The document at a path, behind a link too: whether it is one is asked only where it cannot be opened."""
    found = read_document(path, root, max_bytes)
    return read_document(inside(path), root, max_bytes) if isinstance(found, Fault) and path.is_symlink() else found


def holds_trials(folder: Folder) -> bool:
    """Whether this folder's children are BenchFlow trials; the first one that is a trial for certain decides."""
    for name in folder.folders:
        known = is_benchflow(folder.path / name)
        if known is not None:
            return known
    return False


def trials(path: Path) -> Iterator[Path]:
    """The trial folders of a job (or the trial that the folder is), at any depth, sorted by path."""
    waiting = [path]
    while waiting:
        path = waiting.pop()
        held = listing(path)
        if is_trial(path, held):
            yield path
        elif "solver.json" not in held.others:
            waiting += [path / name for name in reversed(held.folders) if not name.startswith(".")]
