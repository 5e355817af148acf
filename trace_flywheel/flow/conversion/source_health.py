"""What `validate` tells of the jobs that rows came from: which trials have a score, tool calls and a whole capture.

Counted are trials with a `result.json`, as BenchFlow does; one whose result cannot be read has no score. A capture with
a damaged or cut line is malformed, one with no line at all is neither missing nor malformed.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trace_flywheel.flow.conversion.plan import plan_of
from trace_flywheel.flow.conversion.rollout import joined
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.sources import benchflow_folders as folders
from trace_flywheel.sources.benchflow_score import score_of
from trace_flywheel.sources.capture import read_capture
from trace_flywheel.sources.jsonl import Fault, read_document

MANIFEST_BYTES = 64_000_000


class SourceHealth(msgspec.Struct):
    """Counts under BenchFlow's names. `damaged` says for each trial without a whole capture what is wrong."""

    total_rows: int = 0
    scored_rows: int = 0
    unscored_rows: int = 0
    rows_with_tool_calls: int = 0
    missing_llm_trajectory: int = 0
    malformed_llm_trajectory: int = 0
    damaged: list[str] = []

    def counts(self) -> dict[str, int]:
        """The counts alone."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if isinstance(value, int)}


def source_health(paths: Sequence[Path], max_line_bytes: int) -> SourceHealth:
    """The health of the BenchFlow trials below these paths. Raises `FlywheelError` where there is none."""
    health = SourceHealth()
    for name, trial, root in _trials(paths):
        result = folders.read_result(trial, root)
        result = result if isinstance(result, dict) else {}
        if result.get("purpose") == "reviewer":
            continue
        health.total_rows += 1
        scored = score_of(result).reward is not None
        health.scored_rows += scored
        health.unscored_rows += not scored
        health.rows_with_tool_calls += _calls_tools(result)
        _look_at_capture(health, name, trial, root, max_line_bytes)
    if not health.total_rows:
        raise FlywheelError(f"{', '.join(map(str, paths))}: no BenchFlow trial with a result.json found here")
    return health


def task_manifest_rows(file: Path) -> int:
    """How many tasks a task manifest, an object with a list `tasks`, names. Raises `FlywheelError` for another file."""
    document = read_document(file.resolve(), file.resolve().parent, MANIFEST_BYTES)
    if isinstance(document, Fault):
        raise FlywheelError(f"task manifest {file}: {document.text}")
    tasks = document.value.get("tasks") if isinstance(document.value, dict) else None
    if not isinstance(tasks, list):
        raise FlywheelError(f"{file}: tasks must be a list")
    return len(tasks)


def _trials(paths: Sequence[Path]) -> Iterator[tuple[str, Path, Path]]:
    """(path as given, trial folder, root) of each trial, in path order."""
    for piece in plan_of(paths).pieces:
        if piece.run.format != "benchflow":
            continue
        for unit in piece.units:
            if (unit.path / folders.RESULT).exists():
                yield joined(piece.base, unit.relative), unit.path, piece.run.root


def _look_at_capture(health: SourceHealth, name: str, trial: Path, root: Path, max_line_bytes: int) -> None:
    if not (trial / folders.LLM).exists():
        health.missing_llm_trajectory += 1
        health.damaged.append(f"{name}: no {folders.LLM}")
        return
    capture = read_capture(folders.inside(trial / folders.LLM), root, max_line_bytes)
    line = capture.line if isinstance(capture, Fault) else capture.torn and capture.torn.line
    text = capture.text if isinstance(capture, Fault) else "the last line is cut"
    if isinstance(capture, Fault) or line is not None:
        health.malformed_llm_trajectory += 1
        health.damaged.append(f"{name}/{folders.LLM}{f':{line}' if line else ''}: {text}")


def _calls_tools(result: dict[str, Any]) -> bool:
    summary = result.get("trajectory_summary")
    counts = (result.get("n_tool_calls"), summary.get("tool_call_steps") if isinstance(summary, dict) else None)
    return any(isinstance(count, int) and count > 0 for count in counts)
