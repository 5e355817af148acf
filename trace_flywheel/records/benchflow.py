"""BenchFlow's documents as far as they are read or checked here, as types; the schemas are generated from them.

`Result` is a trial's `result.json`. The others are BenchFlow's public documents of version 1. All are open: a newer
minor version adds keys, and a key that is not named here is left alone.
"""

from typing import Any, Literal

import msgspec

Outcome = Literal["passed", "failed", "errored", "verifier_errored"]


class Result(msgspec.Struct):
    """A trial's `result.json`. Nothing in it is sure to be there: what is missing is missing, never zero."""

    task_name: str | None = None
    rollout_name: str | None = None
    agent: str | None = None
    agent_name: str | None = None
    model: str | None = None
    rewards: Any = None
    """Counts only as an object, its `reward` only as a number; other spellings are kept as evidence."""
    reward: Any = None
    scoring: Any = None
    error: Any = None
    error_category: str | None = None
    verifier_error: Any = None
    verifier_error_category: str | None = None
    export_error: Any = None
    partial_trajectory: Any = None
    trajectory_source: str | None = None
    agent_result: dict[str, Any] | None = None
    usage_tracking: dict[str, Any] | None = None
    task_digest: str | None = None
    purpose: str | None = None
    parent_rollout: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    timing: dict[str, Any] | None = None


class Usage(msgspec.Struct):
    n_input_tokens: int | None = None
    n_output_tokens: int | None = None
    n_cache_read_tokens: int | None = None
    n_cache_creation_tokens: int | None = None
    total_tokens: int | None = None
    cost_usd: float | None = None
    cost_status: Literal["priced", "subscription", "unpriced", "unavailable"] | None = None
    price_source: str | None = None
    usage_source: str | None = None
    cost_estimate: Any = None


class ForkChild(msgspec.Struct):
    index: int | None = None
    node_id: str | None = None
    status: str | None = None
    reward: float | None = None


class TrialFork(msgspec.Struct):
    id: str
    status: str | None
    parent_restore: str | None
    children: list[ForkChild]
    kind: str | None = None
    parent_node: str | None = None
    snapshot: dict[str, Any] | None = None
    value: float | None = None
    cost: Any = None
    timing_sec: Any = None


class Trial(msgspec.Struct):
    """`benchflow.trial`, version 1: one trial as BenchFlow's own reader sees it."""

    source: Literal["result.json", "results.jsonl"]
    path: str
    task_name: str
    rollout_name: str
    agent: str
    agent_name: str
    model: str | None
    reward: float | None
    rewards: dict[str, Any] | None
    passed: bool
    score_outcome: Outcome
    execution: Literal["completed", "errored", "timed_out", "integration_failed"]
    assessment: Literal["scored", "error", "unscored"]
    control: Literal["oracle", "empty"] | None
    error: str | None
    error_category: str | None
    verifier_error: str | None
    verifier_error_category: str | None
    n_tool_calls: int
    n_prompts: int
    usage: Usage
    started_at: str | None
    finished_at: str | None
    duration_sec: float | None
    timing: dict[str, Any]
    settings: dict[str, Any]
    forks: list[TrialFork]
    checkpoints: list[Any]
    verifier: dict[str, Any] | None
    review: dict[str, Any] | None
    kind: Literal["benchflow.trial"] = "benchflow.trial"
    schema_version: Literal[1] = 1
    schema_minor: int = 0
    attempts: int = 1


class Denominators(msgspec.Struct):
    """What rates are over; every count is of trials."""

    attempted: int
    scored: int
    assessment_errors: int
    unscored: int
    execution_errors: int
    passed: int
    mean_reward: float | None
    pass_rate_scored: float | None
    pass_rate_attempted: float | None
    clean_scored: int
    clean_passed: int
    pass_rate_clean: float | None
    controls_excluded: int
    integration_failures: int


class JobGroup(msgspec.Struct):
    agent: str | None
    model: str | None
    denominators: Denominators


class Job(msgspec.Struct):
    """`benchflow.job`, version 1."""

    path: str
    job_kind: Literal["evaluation", "branch", "directory"]
    denominators: Denominators
    denominators_with_controls: Denominators
    cost_usd: float | None
    trials: list[Trial]
    groups: list[JobGroup] = []
    interrupted: list[dict[str, Any]] = []
    schema_version: Literal[1] = 1
    schema_minor: int = 0


class Gate(msgspec.Struct):
    fail_under: float | None
    fail_on: list[str]
    failed: list[str]


class RunSummary(msgspec.Struct):
    """`benchflow.run-summary`, version 1."""

    job_dir: str | None
    job_name: str
    total: int
    passed: int
    failed: int
    errored: int
    verifier_errored: int
    timed_out: int
    pass_rate: float | None
    mean_reward: float | None
    reused: int
    ran: int
    gate: Gate
    exit_code: int
    budget: dict[str, Any] | None = None
    schema_version: Literal[1] = 1


class Side(msgspec.Struct):
    label: str
    path: str
    denominators: Denominators
    solve_rates: dict[str, Any] | None = None


class ComparisonSummary(msgspec.Struct):
    tasks: int
    paired: int
    only_a: int
    only_b: int
    both_scored: int
    same_reward: int
    b_higher: int
    b_lower: int
    mean_delta: float | None
    one_run_per_side: bool
    setting_mismatches: int


class ComparisonRow(msgspec.Struct):
    task: str
    status: Literal["paired", "only_a", "only_b"]
    n_a: int
    n_b: int
    scored_a: int
    scored_b: int
    reward_a: float | None
    reward_b: float | None
    delta: float | None
    checks: list[Any]
    group: Any = None


class Comparison(msgspec.Struct):
    """`benchflow.comparison`, version 1."""

    a: Side
    b: Side
    include_controls: bool
    vary: list[str]
    summary: ComparisonSummary
    rows: list[ComparisonRow]
    mismatches: list[Any]
    caveats: list[Any]
    schema_version: Literal[1] = 1
    schema_minor: int = 0
