"""Whose rollout a trial folder is, be it readable or not.

A result says its task, agent and model. Without one the task is the folder's name before its hash, and agent and model
are those of the trial's own configuration or of a sibling, so that a group knows of the members it lost.
"""

import os
from pathlib import Path
from typing import Any

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.sources import benchflow_folders as folders
from trace_flywheel.sources.jsonl import Document, read_document
from trace_flywheel.sources.reader import Run, Unit


def lost(
    run: Run,
    unit: Unit,
    reason: str,
    evidence: dict[str, Any],
    result: dict[str, Any] | None,
    file: str = folders.RESULT,
) -> Drop:
    """The drop of a trial, with the best-known identity. `file` is below the trial folder."""
    identity = identity_of(run, unit, result)
    return Drop(Stage.READ, reason, evidence, run_id=run.run_id, path=file_of(unit, file), **identity)


def identity_of(run: Run, unit: Unit, result: dict[str, Any] | None) -> dict[str, str | None]:
    """Trace, task, agent, model and job; without a result by the folder's name, its configuration, its siblings."""
    spelt, top = str(unit.path), str(run.path)
    parent, name = os.path.split(spelt)
    nested = spelt != top and parent != top
    named = name.rpartition("__")[0] or name
    known = result if result is not None else _neighbour(run, unit.path)
    task = text_or_none(result.get("task_name")) if result is not None else None
    return {
        "trace_id": unit.path.relative_to(run.path).as_posix() if nested else name,
        "task_id": task or named,
        "agent": text_or_none(known.get("agent")),
        "model": text_or_none(known.get("model")),
        "job": os.path.basename(parent),  # noqa: PTH119 - of every trial: no object for it
    }


def _neighbour(run: Run, trial: Path) -> dict[str, Any]:
    """What says an unreadable trial's agent and model: its own configuration, else the first sibling's result."""
    config = read_document(folders.inside(trial / "config.json"), run.root, folders.DOCUMENT_BYTES)
    if isinstance(config, Document) and isinstance(config.value, dict) and config.value.get("agent"):
        return config.value
    for sibling in folders.trials(trial.parent) if trial != run.path else ():
        found = folders.read_result(sibling, run.root)
        if isinstance(found, dict) and found.get("agent"):
            return found
    return {}


def file_of(unit: Unit, name: str) -> str:
    """POSIX path of a trial's file below the root."""
    return name if unit.relative == "." else f"{unit.relative}/{name}"


def text_or_none(value: Any) -> str | None:
    """A non-empty text, else None."""
    return value if isinstance(value, str) and value else None
