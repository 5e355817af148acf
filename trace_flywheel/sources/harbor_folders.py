"""Which folders are Harbor jobs and trials: told by their own files, never by a name alone."""

import os
from pathlib import Path
from typing import Any

from trace_flywheel.sources.jsonl import Document, read_document
from trace_flywheel.sources.reader import listed

RESULT, CONFIG = "result.json", "config.json"
DOCUMENT_BYTES = 64_000_000
TRIAL_MARKS = (RESULT, CONFIG, "trial.log", "exception.txt")


def is_trial(path: Path) -> bool:
    """Whether a folder is a Harbor trial for certain: its result or its configuration names it."""
    return any(
        os.path.lexists(f"{path}/{name}") and "trial_name" in object_in(path / name, path) for name in (RESULT, CONFIG)
    )


def is_job(path: Path) -> bool:
    """Whether a folder that shows no sign of a trial holds trials."""
    if any((path / sign).exists() for sign in ("trial.log", "agent", "verifier")) or is_trial(path):
        return False
    try:
        return any(is_trial(path / name) for name in listed(path).folders)
    except OSError:
        return False


def trials(folder: Path) -> list[Path]:
    """The trial folders of a job, or the trial itself, sorted; what holds none of a trial's files is none."""
    if is_trial(folder):
        return [folder]
    try:
        inside = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []
    visible = [path for path in inside if not path.name.startswith(".")]
    return sorted(p for p in visible if "__" in p.name or any((p / mark).exists() for mark in TRIAL_MARKS))


def object_in(path: Path, root: Path) -> dict[str, Any]:
    """A JSON object; empty where there is none to be read."""
    document = read_document(path, root, DOCUMENT_BYTES)
    return document.value if isinstance(document, Document) and isinstance(document.value, dict) else {}
