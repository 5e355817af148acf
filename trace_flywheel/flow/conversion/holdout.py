"""Goldens in `convert`: found beside the jobs or named by the user, and never converted.

A golden file that cannot be read stops the conversion: a golden skipped in silence would be trained on.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow.golden_text import redacted_golden
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.golden import Golden
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.sources.goldens import read_goldens


def goldens_for(paths: Sequence[Path], pii: Policy | str | None) -> tuple[Golden, ...]:
    """The goldens of these files, redacted as the rollouts are, or a redacted name would hide one.

    Raises `FlywheelError` for a file or line that cannot be read.
    """
    goldens = []
    for path in sorted(set(paths)):
        for item in read_goldens(path):
            if isinstance(item, Drop):
                line = f":{item.evidence['line']}" if "line" in item.evidence else ""
                raise FlywheelError(f"{path}{line}: goldens cannot be read: {item.reason}; mend or remove the line")
            goldens.append(item if pii is None else redacted_golden(item, redactor(pii)))
    return tuple(goldens)


@lru_cache(maxsize=1)
def _held(goldens: tuple[Golden, ...], overlap: float) -> tuple[dict[str, list[Golden]], Holdout]:
    by_task: dict[str, list[Golden]] = {}
    for golden in goldens:
        for _, name in golden.names:
            by_task.setdefault(name, []).append(golden)
    return by_task, Holdout(goldens, overlap)


def golden_of(rollout: Rollout, goldens: tuple[Golden, ...], overlap: float) -> Drop | None:
    """The drop of a rollout that is a golden's task or repeats its text. A side without a suite matches every one."""
    by_task, holdout = _held(goldens, overlap)
    for golden in by_task.get(rollout.task_id, ()):
        if golden.is_task(rollout.task_id, rollout.suite):
            evidence = {"golden": golden.task_id, "path": golden.path, "line": golden.line}
            return Drop(Stage.GOLDEN, "golden_id", evidence)
    near = holdout.hits(rollout.messages)
    return Drop(Stage.GOLDEN, "golden_near_duplicate", near) if near else None
