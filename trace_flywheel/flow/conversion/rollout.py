"""One rollout on its way through `convert`: what is decided about it, in BenchFlow's order, and the rows it gives.

Order: held out, terminal, reward, a model call that succeeded, then each conversation. The answer is an `Outcome`:
encoded rows, or why there are none, and always the identity and score that its group needs.
"""

from typing import Any

import msgspec
import orjson

from trace_flywheel.flow.conversion.identity import identity_of_row
from trace_flywheel.flow.conversion.roles import role_keys
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.sources.reader import printable
from trace_flywheel.trainers.candidates import SUCCESS, Choice, candidates
from trace_flywheel.trainers.layout import Candidate, Layout, Row
from trace_flywheel.trainers.message_window import Window, WindowError, windowed

GROUP_KEYS = ("task", "agent", "model", "job", "task_digest", "policy_version")
DEFAULT_BY = ("task", "agent", "model", "job")
CONVERT = "convert"
"""Stage of the decisions that only `convert` takes; the others are those of the ledger."""
TORN = "torn_capture"
"""The recording's last line was cut: the call in it is lost, and with it the end of the conversation."""
TRIAL_FILES = frozenset({"result.json", "llm_trajectory.jsonl", "acp_trajectory.jsonl", "trajectory.json"})
TRIAL_FOLDERS = frozenset({"trajectory", "agent"})
MAX_FAULTS = 5
"""Faults of one row that the manifest lists; `flywheel validate` finds all of them."""


class Rules(msgspec.Struct, frozen=True):
    """What decides about a rollout."""

    choice: Choice
    min_reward: float | None = None
    grouped: bool = False
    """Rows carry advantages: a scored rollout that ended with an error keeps its rows."""
    vectors: bool = False
    """Rows carry the parts of their reward."""
    window: Window | None = None
    """trl-sft rows are cut to it."""
    identities: bool = False
    """Rows are told apart by what they say."""


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a rollout, or one of its conversations, gave no row."""

    stage: str
    reason: str
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)
    exchange_index: int | None = None


class Outcome(msgspec.Struct):
    """What became of a rollout. A picklable record: it crosses from the worker to the writer."""

    path: str
    """Of the trial, as the user would type it."""
    trace_id: str | None = None
    run_id: str | None = None
    key: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Values of the fields that groups are made by."""
    reward: float | None = None
    vector: dict[str, float | None] | None = None
    """Parts of the reward by name, in their order."""
    error: str | None = None
    unreadable: bool = False
    is_rollout: bool = True
    """False for a folder that looked like a job and is none: told, but not counted."""
    copy: bool = False
    """The rows of this trace were written already; no group counts it."""
    content: bytes | None = None
    """Digest of what was recorded: equal for copies of one trace. None for what gives rows by itself."""
    never_called: bool = False
    retried: bool = False
    source_path: str | None = None
    sha256: str | None = None
    exchanges: int = 0
    failed_exchanges: int = 0
    helpers: int = 0
    subagents: int = 0
    redactions: dict[str, int] = msgspec.field(default_factory=dict)
    rows: list[bytes] = msgspec.field(default_factory=list)
    identities: list[bytes] = msgspec.field(default_factory=list)
    """Of the rows, in their order, where the rules ask for them."""
    rows_with_calls: int = 0
    refusal: Refusal | None = None
    """Why there is no row at all; None for a rollout that was converted."""
    refused: list[Refusal] = msgspec.field(default_factory=list)
    """Conversations of a converted rollout that gave no row."""


def outcome_of_drop(drop: Drop, base: str) -> Outcome:
    """What could not be read: nothing but its best-known identity."""
    return Outcome(
        path=trial_of(file := printable(joined(base, drop.path or ""))),
        source_path=file,
        trace_id=drop.trace_id,
        run_id=drop.run_id,
        key={"task": drop.task_id, "agent": drop.agent, "model": drop.model, "job": drop.job},
        unreadable=drop.stage is Stage.READ,
        refusal=Refusal(drop.stage, drop.reason, drop.evidence),
    )


def refused(rollout: Rollout, drop: Drop, base: str) -> Outcome:
    """A rollout that another stage drops: no rows, but its group still counts it."""
    outcome = identity_of(rollout, base)
    outcome.refusal = Refusal(drop.stage, drop.reason, drop.evidence)
    return outcome


def outcome_of(rollout: Rollout, layout: Layout, rules: Rules, base: str) -> Outcome:
    """The rollout's rows in the layout, or why it has none."""
    outcome = identity_of(rollout, base)
    outcome.refusal = refusal_of(rollout, rules)
    torn = (rollout.metadata or {}).get("torn")
    lost = None if torn is None else Refusal(CONVERT, TORN, torn, outcome.exchanges)
    if outcome.refusal is not None:
        if lost is not None and outcome.refusal.reason == "no_trajectory":
            outcome.refusal = lost  # there was a call, and what is left of it is no JSON
        return outcome
    if lost is not None:
        if rules.choice.row_mode == "trial":
            outcome.refusal = lost
            return outcome
        outcome.refused.append(lost)
    for candidate in candidates(rollout, rules.choice):
        row = layout.candidate_row(rollout, candidate, base)
        row |= role_keys(rollout, candidate, rules.choice.subagents)
        if rules.vectors and rollout.reward_vector is not None:
            row["reward_vector"] = rollout.reward_vector
        row |= {key: value for key, value in _kept_keys(rollout).items() if key not in row}
        if rules.window is not None:
            try:
                row = windowed(row, rules.window)
            except WindowError as error:
                text = {"text": str(error)}
                outcome.refused.append(Refusal(CONVERT, "no_window", text, candidate.exchange_index))
                continue
        faults = list(layout.validate(row))
        if faults:
            outcome.refused.append(_refusal_of_row(candidate, faults))
            continue
        outcome.rows.append(orjson.dumps(row))
        if rules.identities:
            outcome.identities.append(identity_of_row(candidate.messages))
        outcome.rows_with_calls += any(message.tool_calls for message in candidate.messages)
    if not outcome.rows:
        outcome.refusal = outcome.refused.pop(0) if outcome.refused else Refusal(CONVERT, "no_call_of_this_kind")
    return outcome


def identity_of(rollout: Rollout, base: str) -> Outcome:
    """The outcome before any decision."""
    source = joined(base, rollout.source.path)
    told = rollout.metadata or {}
    calls = [e for e in rollout.exchanges if e.status in (None, SUCCESS)]
    failed = int(told.get("failed_calls", len(rollout.exchanges) - len(calls)))
    return Outcome(
        path=trial_of(source),
        trace_id=rollout.trace_id,
        run_id=rollout.run_id,
        key={
            "task": rollout.task_id,
            "task_digest": rollout.task_digest,
            "agent": rollout.agent,
            "model": rollout.model,
            "policy_version": rollout.policy_version,
            "job": rollout.job,
        },
        reward=rollout.reward,
        vector=_parts(rollout.reward_vector),
        error=rollout.error.category if rollout.error else None,
        never_called=rollout.never_called,
        retried=rollout.retried,
        source_path=source,
        sha256=rollout.source.sha256,
        exchanges=int(told.get("calls", len(calls) + failed)),
        failed_exchanges=failed,
        helpers=sum(e.purpose not in ("agent", "subagent") for e in calls),
        subagents=sum(e.purpose == "subagent" for e in calls),
        redactions=dict(rollout.redactions or {}),
    )


def _parts(vector: Row | None) -> dict[str, float | None] | None:
    return dict(zip(vector["names"], vector["values"], strict=True)) if vector else None


def refusal_of(rollout: Rollout, rules: Rules) -> Refusal | None:
    """Why the whole rollout gives no rows, in BenchFlow's order of decisions."""
    unscored_rubric = rollout.scoring is not None and rollout.reward is None
    if unscored_rubric:
        return Refusal(CONVERT, "terminal_error", {"text": "the scoring block gives no score"})
    if rollout.error is not None and not (rules.grouped and rollout.reward is not None):
        error = rollout.error
        return Refusal(CONVERT, "terminal_error", {"category": error.category, "by": error.by})
    if (rollout.metadata or {}).get("partial_trajectory") is True and not rules.grouped:
        return Refusal(CONVERT, "terminal_error", {"text": "the trajectory is partial"})
    if rules.min_reward is not None and (rollout.reward is None or rollout.reward < rules.min_reward):
        return Refusal(CONVERT, "reward", {"reward": rollout.reward, "min_reward": rules.min_reward})
    if rollout.never_called:
        failed = (rollout.metadata or {}).get("failed_calls", 0)
        if failed:
            return Refusal(CONVERT, "provider_error", {"text": f"all {failed} model call(s) failed"})
        return Refusal(CONVERT, "no_trajectory", {"text": "no model call was recorded"})
    return None


def _kept_keys(rollout: Rollout) -> Row:
    """Keys that a row had in the file it was read from."""
    kept: Row = (rollout.metadata or {}).get("row") or {}
    return kept


def _refusal_of_row(candidate: Candidate, faults: list[str]) -> Refusal:
    messages = candidate.messages
    if not any(message.role == "assistant" for message in messages):
        reason = "no_assistant"
    elif not candidate.tools and any(message.tool_calls for message in messages):
        reason = "missing_tool_defs"
    else:
        reason = "invalid"
    return Refusal(CONVERT, reason, {"faults": faults[:MAX_FAULTS]}, candidate.exchange_index)


def joined(base: str, path: str) -> str:
    """A path below a root as the user would type it."""
    return "/".join(part for part in (base.rstrip("/"), path) if part and part != ".")


def trial_of(path: str) -> str:
    """The trial folder of one of its files; a file that holds many rollouts stays itself."""
    folder, _, name = path.rpartition("/")
    parent, _, inner = folder.rpartition("/")
    if name in TRIAL_FILES:
        return parent if inner in TRIAL_FOLDERS else folder
    return path
