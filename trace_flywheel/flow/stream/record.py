"""A trial's line of the stream: its outcome, its calls, and the token sequences that may leave.

Token ids, segments and sequences come from one account of the trial's calls, so that they can never tell different
stories; what was not attested is there and marked, not trainable.
"""

from typing import Any

import msgspec

from trace_flywheel.flow.stream.trial import Trial, calls_of, key_of, worth_of
from trace_flywheel.flow.tokens import segments as token_segments
from trace_flywheel.flow.tokens.calls import TokenCall
from trace_flywheel.flow.tokens.relay import Attested, attested
from trace_flywheel.records.rollout_stream import (
    STREAM_VERSION,
    Completion,
    Outcome,
    RolloutRecord,
    Sequence,
    StreamCall,
    StreamSegment,
    Tokens,
)
from trace_flywheel.redaction.redact import NumberFindingError, Redactor, SecretLeftError
from trace_flywheel.sources.benchflow_identity import text_or_none
from trace_flywheel.sources.benchflow_score import score_of
from trace_flywheel.sources.reader import ReadOptions


def record_of(
    trial: Trial, job: str, group: dict[str, str | None], group_id: str, redactor: Redactor, options: ReadOptions
) -> RolloutRecord:
    """The trial's line, before its group says more."""
    key = key_of(trial, job)
    reward = score_of(trial.result).reward
    calls = calls_of(trial)
    account = token_segments.account_of(calls)
    relay = attested(trial.path, calls, options.max_line_bytes)
    worth = worth_of(trial, calls)
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
