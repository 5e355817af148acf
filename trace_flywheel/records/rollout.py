"""One attempt of one agent at one task, graded: the canonical record between every reader and every dataset.

`(run_id, trace_id)` is its address. Nothing is guessed: a missing verdict or reward is None, and where the source
wrote something that does not count (an unmapped verdict, a NaN) that spelling is kept beside it as evidence.
"""

from typing import Any, Literal

import msgspec

from trace_flywheel.records.message import Message, Tool

ErrorBy = Literal["agent", "infrastructure", "verifier"]
Verdict = Literal["pass", "fail"]
Purpose = Literal["agent", "subagent", "helper", "title", "summary", "compaction"]


class RolloutError(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a rollout did not end by itself. Only the agent's own failures keep their reward in the assets."""

    category: str
    text: str = ""
    by: ErrorBy = "agent"


class Source(msgspec.Struct, frozen=True):
    """Where a rollout was read: `path` is relative to its root, `sha256` is of the file's bytes."""

    format: str
    path: str
    sha256: str


class Correction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A human's replacement of one assistant turn (`turn` counts assistant messages; None means the last)."""

    content: str
    corrected_by: str = ""
    turn: int | None = None


class Exchange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One recorded model call.

    A call of the main thread whose request is a prefix of the rollout's messages stores only its length: its prompt
    is `rollout.messages[:context]` and its answer `rollout.messages[context]`. Every other call (helper, sub-agent, a
    re-rendered history) carries its own `messages`, answer last.
    """

    index: int
    """Position in the capture, counting failed calls."""
    purpose: Purpose = "agent"
    status: int | None = None
    thread: int = 0
    """0 is the main thread."""
    context: int | None = None
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] | None = None
    """None where they are the rollout's own."""
    model: str | None = None
    spawned_by: str | None = None
    """Tool-call id that started a sub-agent's thread."""
    usage: dict[str, Any] | None = None
    token_capture: dict[str, Any] | None = None


class Rollout(msgspec.Struct, frozen=True, omit_defaults=True):
    """A graded rollout. `messages` is the main thread."""

    run_id: str
    trace_id: str
    task_id: str
    source: Source
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    exchanges: tuple[Exchange, ...] = ()

    task_digest: str | None = None
    suite: str | None = None
    agent: str | None = None
    agent_version: str | None = None
    model: str | None = None
    """Provider-qualified where the source says so; the group key's model."""
    request_model: str | None = None
    """The name in the model calls themselves."""
    policy_version: str | None = None
    job: str | None = None
    session_id: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    sampling: dict[str, Any] | None = None
    stop_reason: str | None = None
    is_truncated: bool = False
    never_called: bool = False
    """No model call succeeded: its group cannot be compared."""
    retried: bool = False
    """An attempt that a later attempt of the same trial replaced."""

    verdict: Verdict | None = None
    verdict_text: str | None = None
    """What the source wrote when that is no known verdict."""
    reward: float | None = None
    reward_text: str | None = None
    """What the source wrote when that is no finite number."""
    rewards: dict[str, Any] | None = None
    reward_range: tuple[float, float] | None = None
    reward_vector: dict[str, Any] | None = None
    judge_score: float | None = None
    grader: str | None = None
    grader_version: str | None = None
    scoring: dict[str, Any] | None = None
    step_verdicts: tuple[str, ...] | None = None
    """One per assistant message, `pass` or anything else."""
    correction: Correction | None = None
    source_run_id: str | None = None
    """What the data calls its run; compared with the last component of `run_id`."""

    redactions: dict[str, int] | None = None
    """Findings replaced, by rule. None before redaction."""
    tokens_removed: bool = False
    """Token ids or logprobs were taken out because they spell redacted text: no longer training-grade."""

    error: RolloutError | None = None
    token_usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
