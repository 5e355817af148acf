"""BenchFlow's retry rule, only where a job says that it retried: a later attempt replaces the earlier ones.

Trials of one job folder with the same task, agent and model are attempts of one trial when `evaluation.json` holds a
retry configuration. The scored attempt wins, then the one that finished last, then the last path. File times do not
count: a copied folder must give the same answer.
"""

import os
from pathlib import Path
from typing import Any

from trace_flywheel.sources import benchflow_folders as folders
from trace_flywheel.sources.benchflow_score import score_of
from trace_flywheel.sources.jsonl import Document, read_document
from trace_flywheel.sources.reader import Run

LIMITS = ("max_retries", "retries", "max_attempts", "attempts")
_asked: tuple[Run, str, bool] | None = None
"""The run that was asked about last, by its identity, and its job: another look at the folders makes another one."""


def is_retried(trial: Path, run: Run) -> bool:
    """Whether another attempt of this trial's job replaced it."""
    if not _retries(trial, run):
        return False
    job, root = trial.parent, run.root
    own = folders.read_result(trial, root)
    attempts = [
        (_standing(other, path), path)
        for path in folders.trials(job)
        if path.parent == job and _key(other := folders.read_result(path, root)) == _key(own)
    ]
    return max(attempts)[1] != trial


def _retries(trial: Path, run: Run) -> bool:
    """`retries` of the trial's job; of the run that is read, a job's thousands of trials ask once."""
    global _asked
    job = os.path.dirname(trial)  # noqa: PTH120 - of every trial: no object for it
    if _asked is None or _asked[0] is not run or _asked[1] != job:
        _asked = run, job, retries(trial.parent, run.root)
    return _asked[2]


def retries(job: Path, root: Path) -> bool:
    """Whether this job's configuration says that failed trials are tried again."""
    if not os.path.isfile(f"{job}/evaluation.json"):  # noqa: PTH113 - of every trial: no object for it
        return False
    document = read_document(folders.inside(job / "evaluation.json"), root, folders.DOCUMENT_BYTES)
    value = document.value if isinstance(document, Document) else None
    config = value.get("config") if isinstance(value, dict) else None
    retry = config.get("retry") if isinstance(config, dict) else None
    if isinstance(retry, dict):
        limits = [retry[name] for name in LIMITS if name in retry]
        return all(limit not in (0, None) for limit in limits) if limits else bool(retry)
    return bool(retry)


def _key(result: Any) -> tuple[Any, ...] | None:
    return tuple(str(result.get(k)) for k in ("task_name", "agent", "model")) if isinstance(result, dict) else None


def _standing(result: Any, path: Path) -> tuple[bool, str, str]:
    finished = result.get("finished_at")
    return score_of(result).reward is not None, finished if isinstance(finished, str) else "", path.as_posix()
