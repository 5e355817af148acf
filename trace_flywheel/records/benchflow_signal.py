"""`benchflow.training-signal`, version 1: what a group makes of its rewards, as a row carries it."""

from typing import Literal

import msgspec


class SignalBlock(msgspec.Struct):
    """A group as a row carries it."""

    id: str
    by: list[str]
    key: dict[str, str | None]
    normalisation: Literal["grpo", "loo"]
    formula: str
    rollouts: int
    scored: int
    mean: float | None
    std: float | None
    std_ddof: Literal[1]
    eps: float
    excluded: Literal["unscored", "single_scored_rollout", "retried"] | None = None
    vector_names_differ: bool = False


class RewardVector(msgspec.Struct):
    source: Literal["rubric", "scoring", "verifier"]
    names: list[str]
    kinds: list[str]
    weights: list[float | None]
    values: list[float | None]
    formula: str
    revision: str | None = None
    rubric_sha256: str | None = None
    note: str | None = None


class TrainingSignal(msgspec.Struct):
    """`benchflow.training-signal`, version 1: the keys that a row gets. None of them is sure to be there."""

    advantage: float | None = None
    group: SignalBlock | None = None
    reward_vector: RewardVector | None = None
    advantage_vector: list[float | None] | None = None
