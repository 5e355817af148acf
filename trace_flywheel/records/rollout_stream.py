"""One finished rollout as a line of `benchflow.rollout-stream.v1`: what `flywheel stream` prints and the API yields.

The models are the schema (`schemas/rollout-stream.v1`); fields stand in the order of the line. A new optional field
keeps the version, anything else makes a new one. Rewards are raw; token lists are complete or absent, never cut.
"""

from typing import Any, Literal

import msgspec

STREAM_VERSION = "benchflow.rollout-stream.v1"
Outcome = Literal["passed", "failed", "errored", "verifier_errored"]
ThreadKind = Literal["agent", "subagent", "chat", "helper", "compaction"]


class Thread(msgspec.Struct, frozen=True):
    """One conversation of a capture: the calls that belong to it, by index."""

    thread: int
    kind: ThreadKind
    calls: list[int]


class Prefix(msgspec.Struct, frozen=True):
    """How often a prompt starts with the previous prompt and its sampled tokens; `breaks` are the calls that do not."""

    pairs: int
    extends_previous_call: int
    breaks: list[int]


class TokenCapture(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a rollout's capture is worth. Counts are absent where no capture could be read."""

    status: Literal["captured", "capture_off", "no_gateway_capture", "unreadable_capture"]
    training_grade: bool
    path: str | None
    """Providers that gave tokens."""
    calls: int | msgspec.UnsetType = msgspec.UNSET
    captured_calls: int | msgspec.UnsetType = msgspec.UNSET
    complete_calls: int | msgspec.UnsetType = msgspec.UNSET
    unavailable: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """`field:reason` to the number of calls."""
    prefix: Prefix | msgspec.UnsetType = msgspec.UNSET
    threads: list[Thread] | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET
    """Why it is not training grade, where counts do not say so."""


class Completion(msgspec.Struct, frozen=True):
    index: int
    token_ids: list[int] | None
    logprobs: list[Any] | None
    """As recorded: numbers, and null where the provider had none."""


class StreamCall(msgspec.Struct, frozen=True):
    """A captured call. `index` is its place in the capture, failed calls counted."""

    index: int
    provider: str | None
    prompt_token_ids: list[int] | None
    completions: list[Completion]
    unavailable: dict[str, dict[str, Any]]


class Sequence(msgspec.Struct, frozen=True):
    """A whole conversation, token-in/token-out: mask 1 for sampled tokens, 0 (logprob 0.0) for the environment's."""

    thread: int
    kind: ThreadKind
    calls: list[int]
    prompt_ids: list[int]
    completion_ids: list[int]
    completion_mask: list[int]
    completion_logprobs: list[float]


class SegmentStart(msgspec.Struct, frozen=True):
    reason: Literal["rerender", "compaction", "after_dropped_call"]
    call: int


class CallSpan(msgspec.Struct, frozen=True):
    call: int
    offset: int
    length: int


class StreamSegment(msgspec.Struct, frozen=True):
    """One unbroken span of a conversation; `start` says what broke the one before it."""

    segment: int
    thread: int
    kind: ThreadKind
    calls: list[int]
    start: SegmentStart | None
    prompt_ids: list[int]
    completion_ids: list[int]
    action_mask: list[int]
    logprobs: list[float]
    call_spans: list[CallSpan]
    routing: list[dict[str, Any]] | None
    digest: str
    policy_versions: list[Any]
    trainable: bool
    excluded: str | None


class CallAccount(msgspec.Struct, frozen=True):
    """What became of one call's tokens."""

    index: int
    status: Literal["ok", "failed"]
    purpose: str
    kind: ThreadKind | None
    thread: int | None
    digest: str | None
    unusable: str | None
    retry_of: int | None
    retried_by: int | None
    segment: int | None
    unused_choices: int
    attested: bool | None
    policy_version: Any


class DroppedCall(msgspec.Struct, frozen=True):
    call: int
    reason: str


class FailedAttempts(msgspec.Struct, frozen=True):
    retried: int
    unretried: int


class Tokens(msgspec.Struct, frozen=True):
    """The account of all calls. `exact`: every usable kind's call is in a segment."""

    schema_version: str
    status: Literal["exact", "partial", "none"]
    calls: list[CallAccount]
    threads: list[Thread]
    dropped: list[DroppedCall]
    failed_attempts: FailedAttempts
    attestation: dict[str, Any]


class RolloutRecord(msgspec.Struct, frozen=True):
    """One line of the stream."""

    schema_version: str
    job: str
    rollout: str
    rollout_path: str
    """Relative to the job folder."""
    task: str
    agent: str | None
    model: str | None
    group_id: str
    group: dict[str, str | None]
    reward: float | None
    scored: bool
    outcome: Outcome
    error: str | None
    finished_at: str | None
    token_capture: TokenCapture
    calls: list[StreamCall]
    sequences: list[Sequence]
    advantage: float | None
    group_complete: bool | None
    """Null unless groups were asked for; False for members of a group that never filled up."""
    replaces: str | None = None
    """`rollout_path` of the record that this one stands for: an earlier attempt, or itself before it changed."""
    retried: bool = False
    segments: list[StreamSegment] = []
    tokens: Tokens | None = None
    cursor: str | None = None
    """Give it to `--after` to go on behind this line."""


class CoverageReport(msgspec.Struct, frozen=True):
    """What `flywheel token-coverage --json` prints. `per_rollout`: a `TokenCapture` each, with the rollout's name."""

    rollouts: int
    training_grade_rollouts: int
    per_rollout: list[dict[str, Any]]
