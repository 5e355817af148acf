"""One finished trial as a stream record: its result, and what may leave of its tokens.

Everything that decodes to text comes through redaction; a trial that cannot be read or made safe still gives its
record, with no tokens and the reason, because its group must know of it.
"""

from pathlib import Path
from typing import Any

import msgspec

from trace_flywheel.flow.tokens import account as token_account
from trace_flywheel.flow.tokens import segments as token_segments
from trace_flywheel.flow.tokens.calls import TokenCall, token_calls
from trace_flywheel.flow.tokens.relay import Attested, attested
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rollout_stream import (
    STREAM_VERSION,
    Completion,
    Outcome,
    RolloutRecord,
    Sequence,
    StreamCall,
    StreamSegment,
    TokenCapture,
    Tokens,
)
from trace_flywheel.redaction.redact import NumberFindingError, Redactor, SecretLeftError
from trace_flywheel.sources import benchflow_folders as folders
from trace_flywheel.sources.benchflow_identity import text_or_none
from trace_flywheel.sources.benchflow_score import score_of
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
    found = _worth(trial, _calls(trial))
    if found.status == "capture_off":
        return msgspec.structs.replace(found, reason=CAPTURE_OFF)
    if found.status == "no_gateway_capture":
        return msgspec.structs.replace(found, reason=f"no llm_trajectory.jsonl: {found.reason}")
    return found


def _calls(trial: Trial) -> list[TokenCall]:
    return token_calls(trial.capture, trial.rollout) if isinstance(trial.capture, Capture) else []


def _worth(trial: Trial, calls: list[TokenCall]) -> TokenCapture:
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


def record_of(
    trial: Trial, job: str, group: dict[str, str | None], group_id: str, redactor: Redactor, options: ReadOptions
) -> RolloutRecord:
    """The trial's line, before its group says more."""
    key = key_of(trial, job)
    reward = score_of(trial.result).reward
    calls = _calls(trial)
    account = token_segments.account_of(calls)
    relay = attested(trial.path, calls, options.max_line_bytes)
    worth = _worth(trial, calls)
    merged = token_segments.sequences(account) if worth.training_grade else []
    if merged is None:
        worth = msgspec.structs.replace(worth, training_grade=False, reason="a conversation is not one unbroken span")
    segments = _segments(account, relay)
    return RolloutRecord(
        schema_version=STREAM_VERSION,
        job=job,
        rollout=trial.path.name,
        rollout_path=trial.relative,
        task=key["task"] or "",
        agent=key["agent"],
        model=key["model"],
        group_id=group_id,
        group=group,
        reward=reward,
        scored=reward is not None,
        outcome=_outcome(trial.result, reward, options.pass_reward),
        error=_error(trial, redactor),
        finished_at=text_or_none(trial.result.get("finished_at")),
        token_capture=worth,
        calls=[_call(call) for call in calls if call.captured],
        sequences=[Sequence(**one) for one in merged or ()],
        advantage=None,
        group_complete=None,
        segments=segments,
        tokens=_tokens(calls, account, segments, relay),
    )


def _call(call: TokenCall) -> StreamCall:
    choice = call.choice
    completions = [Completion(0, choice.token_ids, choice.logprobs)] if choice is not None else []
    return StreamCall(call.index, call.provider, call.prompt, completions, call.unavailable)


def _segments(account: token_segments.Account, relay: Attested) -> list[StreamSegment]:
    told = []
    for number, segment in enumerate(account.segments):
        known = [relay.matched.get(index, (None, None)) for index in segment.calls]
        excluded = None if segment.kind in token_segments.TRAINABLE else f"kind:{segment.kind}"
        if any(sure is False for sure, _ in known):
            excluded = "attestation_mismatch"
        fields = {
            "segment": number,
            "thread": segment.thread,
            "kind": segment.kind,
            "calls": segment.calls,
            "start": segment.start,
            "prompt_ids": segment.prompt_ids,
            "completion_ids": segment.completion_ids,
            "action_mask": segment.action_mask,
            "logprobs": segment.logprobs,
            "call_spans": segment.spans,
            "routing": segment.routing or None,
            "digest": token_segments.segment_digest(segment),
            "policy_versions": [version for _, version in known],
            "trainable": excluded is None,
            "excluded": excluded,
        }
        told.append(msgspec.convert(fields, StreamSegment))
    return told


def _tokens(
    calls: list[TokenCall], account: token_segments.Account, segments: list[StreamSegment], relay: Attested
) -> Tokens:
    segment_of = {index: s.segment for s in segments for index in s.calls}
    told = []
    for call in calls:
        kind, thread = account.kinds.get(call.index, (None, None))
        sure, version = relay.matched.get(call.index, (None, None))
        told.append(
            {
                "index": call.index,
                "status": "failed" if call.failed else "ok",
                "purpose": call.purpose,
                "kind": kind,
                "thread": thread,
                "digest": call.digest,
                "unusable": None if call.failed else call.unusable,
                "retry_of": call.retry_of,
                "retried_by": call.retried_by,
                "segment": segment_of.get(call.index),
                "unused_choices": call.unused_choices,
                "attested": sure,
                "policy_version": version,
            }
        )
    lost = any(account.kinds[drop["call"]][0] in token_segments.TRAINABLE for drop in account.dropped)
    lost = lost or any(s.kind in token_segments.TRAINABLE and not s.trainable for s in segments)
    status = "none" if not any(s.trainable for s in segments) else "partial" if lost else "exact"
    retried = sum(call.failed and call.retried_by is not None for call in calls)
    document = {
        "schema_version": token_segments.TOKEN_SEGMENTS,
        "status": status,
        "calls": told,
        "threads": account.threads,
        "dropped": account.dropped,
        "failed_attempts": {"retried": retried, "unretried": sum(call.failed for call in calls) - retried},
        "attestation": relay.report,
    }
    return msgspec.convert(document, Tokens)


def _outcome(result: dict[str, Any], reward: float | None, pass_reward: float) -> Outcome:
    """A scored trial passed or failed whatever ended it; without a score, who failed."""
    if reward is not None:
        return "passed" if reward >= pass_reward else "failed"
    return "errored" if result.get("error") else "verifier_errored"


def _error(trial: Trial, redactor: Redactor) -> str | None:
    given = trial.result.get("error") or trial.result.get("verifier_error")
    if not given:
        return None
    if trial.rollout is not None and trial.rollout.error is not None:
        return trial.rollout.error.text
    try:
        return str(redactor.redact_value(str(given))[0])
    except (NumberFindingError, SecretLeftError) as found:
        return f"withheld: rule {found.rule}"
