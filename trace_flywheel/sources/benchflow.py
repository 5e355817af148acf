"""BenchFlow jobs: every trial folder becomes one rollout, or one Drop that says whose rollout is lost.

Trainer files beside a trial's captures are derived and are not read. A trial without a readable `result.json` is lost
to its group, not to the count.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.sources import benchflow_folders as folders
from trace_flywheel.sources.benchflow_identity import lost
from trace_flywheel.sources.benchflow_trial import Trial
from trace_flywheel.sources.jsonl import Document, Fault, Line, read_document, read_lines
from trace_flywheel.sources.reader import Folder, ReadOptions, Run, Unit


class BenchFlow:
    """The reader. A job folder holds trials as children; a trial alone is a run of its own."""

    format = "benchflow"
    precedence = 10

    def claims(self, folder: Folder) -> bool:
        marked = folders.RESULT in folder.files or "trajectory" in folder.folders
        return (marked and folders.is_benchflow(folder.path) is True) or folders.holds_trials(folder)

    def finished(self, folder: Folder) -> bool:
        """By the job's `results.jsonl`, else its `summary.json`, else when every trial has its result."""
        if "results.jsonl" in folder.files:
            return _ends_whole(folder.path / "results.jsonl", folder.path)
        if "summary.json" in folder.files:
            document = read_document(folders.inside(folder.path / "summary.json"), folder.path, folders.DOCUMENT_BYTES)
            return isinstance(document, Document)
        return all(os.path.lexists(trial / folders.RESULT) for trial in folders.trials(folder.path))

    def units(self, run: Run) -> Sequence[Unit]:
        return [Unit(trial, _below(trial, run.root), _size(str(trial))) for trial in folders.trials(run.path)]

    def read(self, run: Run, unit: Unit, options: ReadOptions) -> Iterator[Rollout | Drop]:
        result = folders.document_at(unit.path / folders.RESULT, run.root, options.max_line_bytes)
        if isinstance(result, Fault):
            denied = folders.listing(unit.path).denied
            missing = not denied and not (unit.path / folders.RESULT).is_file()
            reason = "missing_result" if missing and "leads out" not in result.text else result.reason
            yield lost(run, unit, reason, result.evidence(), None)
        elif not isinstance(result.value, dict):
            text = f"result is a {type(result.value).__name__}"
            yield lost(run, unit, "unknown_shape", {"text": text}, None)
        elif result.value.get("purpose") == "reviewer":
            return
        elif folders.is_denied(f"{unit.path}/trajectory"):
            yield lost(run, unit, "unreadable_file", {"text": "Permission denied"}, result.value, "trajectory")
        else:
            yield Trial(run, unit, options, result.value, result.sha256).read()


READER = BenchFlow()


def _below(trial: Path, root: Path) -> str:
    """POSIX path of a trial below its root."""
    spelt, above = trial.as_posix(), root.as_posix().rstrip("/") + "/"
    return spelt[len(above) :] if spelt.startswith(above) else trial.relative_to(root).as_posix()


def _size(trial: str) -> int:
    total = 0
    for name in (folders.RESULT, folders.LLM, folders.ACP):
        try:
            total += os.stat(f"{trial}/{name}").st_size  # noqa: PTH116 - of thousands: no object for each
        except OSError:
            continue
    return total


def _ends_whole(path: Path, root: Path) -> bool:
    """Whether the last line is whole: newline-terminated JSON. An empty file is still being written."""
    last: Line | Fault | None = None
    for line in read_lines(folders.inside(path), root, folders.DOCUMENT_BYTES):
        last = line
    if not isinstance(last, Line):
        return False
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
