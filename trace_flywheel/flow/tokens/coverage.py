"""Which rollouts of a folder carry token ids and logprobs good enough to train on, after redaction.

Every folder with a `result.json` is a rollout here, nested ones too: what is asked is where tokens are.
"""

from pathlib import Path
from typing import Any

import msgspec

from trace_flywheel.flow.stream.trial import coverage_of, read_trial
from trace_flywheel.records.rollout_stream import CoverageReport, TokenCapture
from trace_flywheel.redaction.redact import Redactor
from trace_flywheel.sources import benchflow_folders as folders
from trace_flywheel.sources.jsonl import Fault
from trace_flywheel.sources.reader import ReadOptions, printable
from trace_flywheel.sources.walked import walked


def token_coverage(path: Path, redactor: Redactor, options: ReadOptions) -> CoverageReport:
    """The report over all rollouts below a folder, sorted by path. Raises `FileNotFoundError` for a missing one."""
    if not path.exists():
        raise FileNotFoundError(path)
    root = path.resolve()
    found = sorted(Path(top) for top, below, files in walked(root) if folders.RESULT in (*below, *files))
    told = [redactor.masked_record(_told(root, trial, redactor, options)) for trial in found]
    return CoverageReport(len(told), sum(bool(one["training_grade"]) for one in told), told)


def _told(root: Path, path: Path, redactor: Redactor, options: ReadOptions) -> dict[str, Any]:
    trial = read_trial(root, path, options, redactor)
    if trial is None or isinstance(trial, Fault):
        reason = "a reviewer's run" if trial is None else f"result.json: {trial.text}"
        worth = TokenCapture(
            "no_gateway_capture" if trial is None else "unreadable_capture", False, None, reason=reason
        )
    else:
        worth = coverage_of(trial)
    return {"rollout": printable(path.name), **msgspec.to_builtins(worth)}


def line_of(rollout: dict[str, Any]) -> str:
    """One line of the report in words."""
    mark = "yes" if rollout["training_grade"] else "no "
    route = f" [{rollout['path']}]" if rollout.get("path") else ""
    if rollout["status"] != "captured":
        return f"{mark}  {rollout['rollout']}{route}: {rollout['reason']}"
    prefix = rollout["prefix"]
    detail = f"{rollout['complete_calls']}/{rollout['calls']} calls complete, "
    detail += f"{prefix['extends_previous_call']}/{prefix['pairs']} prompts extend the previous call"
    if rollout["unavailable"]:
        detail += "; missing: " + ", ".join(f"{key} in {n} calls" for key, n in rollout["unavailable"].items())
    if reason := rollout.get("reason"):
        detail += f"; {reason}"
    return f"{mark}  {rollout['rollout']}{route}: {detail}"


def last_line(report: CoverageReport) -> str:
    return (
        f"{report.training_grade_rollouts} of {report.rollouts} rollouts are training-grade"
        " (complete token ids and logprobs, token-in/token-out)"
    )
