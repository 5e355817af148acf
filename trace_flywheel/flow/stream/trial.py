"""One finished trial as it is read: its result, and what its capture of tokens is worth.

Everything that decodes to text comes through redaction; a trial that cannot be read or made safe still gives its
record, with no tokens and the reason, because its group must know of it.
"""

from pathlib import Path
from typing import Any

import msgspec

from trace_flywheel.flow.tokens import account as token_account
from trace_flywheel.flow.tokens.calls import TokenCall, token_calls
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rollout_stream import (
    TokenCapture,
)
from trace_flywheel.redaction.redact import Redactor
from trace_flywheel.sources import benchflow_folders as folders
from trace_flywheel.sources.benchflow_identity import text_or_none
from trace_flywheel.sources.capture import Capture, read_capture
from trace_flywheel.sources.discover import read_unit
from trace_flywheel.sources.jsonl import Document, Fault, read_document
from trace_flywheel.sources.reader import NAME_FAULT, ReadOptions, Run, Unit, is_nameable

NO_GATEWAY = "the agent's model calls did not go through BenchFlow's gateway (usage_tracking.endpoint_kind={!r})"
CAPTURE_OFF = (
    "calls went through the gateway without token capture; rerun with --agent-env BENCHFLOW_CAPTURE_TOKEN_LOGPROBS=1"
)


class Trial(msgspec.Struct, frozen=True):
    """A trial that has a readable result. `sha256` is the result file's; `rollout` None where nothing may leave."""

    path: Path
    relative: str
    result: dict[str, Any]
    sha256: str
    rollout: Rollout | None
    drop: Drop | None
    capture: Capture | Fault | None
    """None without a capture file."""


def read_trial(job: Path, path: Path, options: ReadOptions, redactor: Redactor) -> Trial | Fault | None:
    """The trial; a Fault for an unreadable result or a path that no record can name, None for a reviewer's run."""
    if not is_nameable(path):
        return Fault("bad_encoding", NAME_FAULT)
    document = read_document(folders.inside(path / folders.RESULT), job, options.max_line_bytes)
    if isinstance(document, Fault):
        return document
    if not isinstance(document, Document) or not isinstance(document.value, dict):
        return Fault("unknown_shape", "the result is no JSON object")
    if document.value.get("purpose") == "reviewer":
        return None
    relative = path.relative_to(job).as_posix()
    run = Run(job.name, "benchflow", job, job)
    read = next(iter(read_unit(run, Unit(path, relative, 0), options)), None)
    safe = redactor.redact(read) if isinstance(read, Rollout) else read
    return Trial(
        path,
        relative,
        document.value,
        document.sha256,
        safe if isinstance(safe, Rollout) else None,
        safe if isinstance(safe, Drop) else None,
        _capture(job, path, options),
    )


def _capture(job: Path, path: Path, options: ReadOptions) -> Capture | Fault | None:
    file = path / folders.LLM
    if folders.listing(file.parent).denied:
        return Fault("unreadable_file", "Permission denied")
    return read_capture(folders.inside(file), job, options.max_line_bytes) if file.is_file() else None


def coverage_of(trial: Trial) -> TokenCapture:
    """What the trial's capture is worth, with the reason in words where it is not captured."""
    found = worth_of(trial, calls_of(trial))
    if found.status == "capture_off":
        return msgspec.structs.replace(found, reason=CAPTURE_OFF)
    if found.status == "no_gateway_capture":
        return msgspec.structs.replace(found, reason=f"no llm_trajectory.jsonl: {found.reason}")
    return found


def calls_of(trial: Trial) -> list[TokenCall]:
    return token_calls(trial.capture, trial.rollout) if isinstance(trial.capture, Capture) else []


def worth_of(trial: Trial, calls: list[TokenCall]) -> TokenCapture:
    capture = trial.capture
    if capture is None:
        tracking = trial.result.get("usage_tracking")
        kind = tracking.get("endpoint_kind") if isinstance(tracking, dict) else None
        return TokenCapture("no_gateway_capture", False, None, reason=NO_GATEWAY.format(kind))
    if isinstance(capture, Fault):
        place = f"line {capture.line}: " if capture.line else ""
        return TokenCapture("unreadable_capture", False, None, reason=f"{place}{capture.reason}: {capture.text}")
    found = msgspec.convert({"status": "captured", **token_account.summary(calls)}, TokenCapture)
    if not found.captured_calls:
        return msgspec.structs.replace(found, status="capture_off")
    if capture.torn is not None:
        told = f"line {capture.torn.line} of the capture is cut: {capture.torn.text}"
        return msgspec.structs.replace(found, training_grade=False, reason=told)
    if trial.drop is not None:
        told = f"no tokens leave: {trial.drop.stage}/{trial.drop.reason}"
        return msgspec.structs.replace(found, reason=told)
    return found


def key_of(trial: Trial, job: str) -> dict[str, str | None]:
    """Values of the fields that groups may be made by."""
    result = trial.result
    named = trial.path.name.rpartition("__")[0] or trial.path.name
    return {
        "task": text_or_none(result.get("task_name")) or named,
        "agent": text_or_none(result.get("agent")),
        "model": text_or_none(result.get("model")),
        "job": job,
        "task_digest": text_or_none(result.get("task_digest")),
        "policy_version": trial.rollout.policy_version if trial.rollout is not None else None,
    }
