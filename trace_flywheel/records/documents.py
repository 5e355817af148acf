"""Documents that are written for other programs, as types. Their schemas are generated from these."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Meta(ge=0)]
Dropped = dict[str, Annotated[int, Meta(ge=1)]]
"""By reason."""


class SignalMember(msgspec.Struct, omit_defaults=True):
    """One rollout of a group. `rollout_dir` is its folder as the user would type it."""

    rollout: str | None
    rollout_dir: str
    reward: float | None
    advantage: float | None
    excluded: str | None = None
    """`retried`, `unscored` or `single_scored_rollout`."""


class SignalGroup(msgspec.Struct, omit_defaults=True):
    """A group's baseline: mean and sample standard deviation of its scored rollouts."""

    id: str
    by: list[str]
    key: dict[str, str | None]
    normalisation: str
    formula: str
    rollouts: int
    scored: int
    mean: float | None
    std: float | None
    std_ddof: Literal[1]
    eps: float
    members: list[SignalMember]
    withheld: str | None = None
    """Why no member has an advantage."""
    non_positive_mean: bool = False
    """max-rl has no baseline: every advantage is 0."""
    non_positive_mean_parts: list[str] = []
    """Parts of the reward that max-rl has no baseline for."""
    vector_names_differ: bool = False
    """Its members' rewards have different parts."""


class TrainingSignal(msgspec.Struct):
    """The advantages of one selection of rollouts, before any filter on reward."""

    reward_vector: bool
    group_advantage: str
    group_by: list[str]
    std_ddof: Literal[1]
    eps: float
    groups: list[SignalGroup]


class ConvertCounts(msgspec.Struct, rename={"entered": "in"}):
    entered: int
    converted: int
    dropped: int


class ConvertDrop(msgspec.Struct):
    """A rollout, or one of its conversations, that gave no row."""

    rollout: str
    run_id: str | None
    trace_id: str | None
    stage: str
    reason: str
    evidence: dict[str, Any] = {}
    exchange_index: int | None = None


class ConvertInput(msgspec.Struct):
    path: str
    sha256: str
    rows: int


class ConvertManifest(msgspec.Struct):
    """What one `convert` did: every rollout is converted or named among the drops."""

    manifest_version: Literal[1]
    format: str
    version: str
    settings: dict[str, Any]
    rollouts: ConvertCounts
    rollouts_seen: int
    exchanges_seen: int
    rows_written: int
    rows_with_tool_calls: int
    sources: list[str]
    inputs: list[ConvertInput]
    drops: list[ConvertDrop]
    redactions: dict[str, int]
    training_signal: TrainingSignal | None = None


class BranchDrop(msgspec.Struct, kw_only=True):
    """A tree that could not be read, or a child, a pair or a whole fork of one that gave no row."""

    tree: str
    """The `tree.json` as the user would type it."""
    reason: str
    evidence: dict[str, Any]
    fork_id: str | UnsetType = UNSET
    child: str | UnsetType = UNSET
    pair: list[str] | UnsetType = UNSET
    """Of two children."""


class BranchInput(msgspec.Struct):
    path: str
    sha256: Digest


class BranchManifest(msgspec.Struct):
    """What one `convert --format branch-tree` did, with BenchFlow's counters."""

    manifest_version: Literal[1]
    format: Literal["branch-tree"]
    version: str
    settings: dict[str, Any]
    trials: Count
    forks: Count
    child_rows: Count
    pair_rows: Count
    unscored_children: Count
    missing_observations: Count
    skipped_oracle: Count
    below_min_reward: Count
    pairs_skipped_different_request: Count
    inputs: list[BranchInput]
    drops: list[BranchDrop]


class EpisodesMetadata(msgspec.Struct):
    """`metadata.json` beside the episodes of an `openenv-episodes` folder."""

    layout: Literal["openenv-episodes"]
    version: int
    episodes: Count
    results: str
    """The file of the episodes."""


class SourceHealth(msgspec.Struct):
    """BenchFlow's counts of the trials that rows came from."""

    total_rows: Count
    scored_rows: Count
    unscored_rows: Count
    rows_with_tool_calls: Count
    missing_llm_trajectory: Count
    malformed_llm_trajectory: Count


class Validation(msgspec.Struct):
    """The line that `flywheel validate` prints of a sound file; a layout may add counts of its own."""

    format: str
    ok: Literal[True]
    rows: Count
    rows_with_tool_calls: Count
    source_health: SourceHealth | UnsetType = UNSET
    canonical_selected_rows: Count | UnsetType = UNSET
    task_manifest_rows: Count | UnsetType = UNSET


class RefreshRuns(msgspec.Struct):
    found: int
    ingested: int
    unchanged: int
    quarantined: int


class RefreshDataset(msgspec.Struct):
    version: str
    rows: int
    path: str


class RefreshLedger(msgspec.Struct, rename={"entered": "in"}):
    """`in` equals `kept` and the sum of `dropped`, by stage and reason."""

    entered: int
    kept: int
    dropped: dict[str, dict[str, int]]


class Refresh(msgspec.Struct):
    """What `flywheel refresh --json` prints."""

    runs: RefreshRuns
    datasets: dict[str, RefreshDataset]
    ledger: dict[str, RefreshLedger]
    problems: list[str] = []
    """What could not be read, one line each."""
