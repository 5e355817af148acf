"""Sections about decisions over all runs: grades, goldens, groups, selection, pairs, duplicates, splits."""

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveInt, field_validator, model_validator

from trace_flywheel.records.normalisation import Normalisation
from trace_flywheel.settings.section import Section

GROUP_KEYS = Literal["task", "task_digest", "agent", "model", "policy_version", "job"]


class Grading(Section):
    pass_reward: float = 1.0
    """Least reward that counts as a pass where the verifier writes no verdict (BenchFlow, Harbor)."""
    verdict_map: dict[str, Literal["pass", "fail"]] = Field(default_factory=dict)
    """Other spellings of a verdict; without an entry they are `no_verdict`."""
    ungraded: dict[str, Literal["accept", "needs_grading"]] = Field({"atraj": "accept"})
    """By source format: take rollouts without a verdict into SFT, marked, or route them back."""
    verdicts: tuple[Path, ...] = ()
    """Files of verdicts, `{trace_id, run_id?, verdict, reward?, grader, grader_version?}` a line; the last counts."""


class Goldens(Section):
    paths: tuple[Path, ...] = ()
    """Golden files beside those found in an eval layout (`eval/goldens.jsonl` above a run)."""
    forget: tuple[Path, ...] = ()
    """Golden files that hold nothing out any more. A home remembers every golden file that it ever read."""
    overlap: float = Field(0.5, gt=0, le=1)
    """Share of a golden statement's 8-token n-grams that makes a rollout a near-duplicate of it."""


class Groups(Section):
    by: tuple[GROUP_KEYS, ...] = ("task", "task_digest", "agent", "model", "policy_version")
    """What the members of a group share."""
    normalisation: Normalisation = "grpo"
    """grpo: distance from the mean in standard deviations; dr-grpo: as it is; max-rl: by the mean; loo: to others'."""
    eps: float = Field(1e-4, ge=0)
    """Added to the standard deviation; BenchFlow's and TRL's value."""
    unscored: Literal["withhold", "exclude"] = "withhold"
    """A member without a score withholds the group's advantages, or is left out of them."""
    max_policy_age: float | None = Field(None, ge=0)
    """Days between the last finish of a rollout's policy and the newest of all, above which RL leaves it out."""


class Selection(Section):
    keep_fraction: float = Field(0.25, gt=0, le=1)
    """Share of a task's passing rollouts that is kept, best reward first; rounded up, so never none."""
    max_per_task: PositiveInt = 4
    """Rows of one task after near-duplicate removal; corrections do not count."""


class Pairs(Section):
    rule: Literal["mu-2sigma", "mu-sigma", "max-min"] = "mu-2sigma"
    """Where in the reward distribution the rejected member is sought, among failing rollouts."""
    min_group: int = Field(4, ge=2)
    """Scored members below which a group gives no pair."""
    per_task: PositiveInt = 1
    """Pairs of one task, however many contexts it was run in."""
    keep: PositiveInt | Literal["all"] = "all"
    """Pairs kept by delta over the whole candidate set."""
    delta_source: Literal["judge", "reward"] = "judge"
    """What a pair's delta is the difference of: judge scores where both members have one, else rewards; or rewards."""
    errored_rejected: bool = False
    """Take failing rollouts that ended in an error or were cut off as the rejected member too."""


class Dedup(Section):
    threshold: float = Field(0.85, gt=0, le=1)
    """Jaccard of word 5-shingles from which two rows are near-duplicates; exact, not estimated."""
    embedding_threshold: float | None = Field(None, gt=0, le=1)
    """Cosine of sentence vectors from which rows of one task are duplicates by meaning too (extra `embedding`)."""
    mode: Literal["cumulative", "delta"] = "cumulative"
    """Each version whole, or only what the versions of the same dataset among `corpora` do not hold yet."""
    alarm_share: float = Field(0.5, gt=0, le=1)
    """Share of a task's rows (of four or more) lost to near-duplicates above which the card warns of a template."""
    index: bool = True
    """Keep what is known of corpora in the home; off, they are read anew each time. What is found is the same."""
    ray_address: str = ""
    """Ray cluster (`auto`, `host:6379`) whose tasks compare rows where the index outgrows one machine; empty: none."""


class Splits(Section):
    eval: float = Field(0.0, ge=0, lt=1)
    """Share of tasks whose rows go to the split `eval`; a task never changes its split while seed and shares stand."""
    held_out: float = Field(0.0, ge=0, lt=1)
    """Share of tasks whose rows go to the split `held_out`."""
    family: str = ""
    """Regular expression whose group names the family in a task id; families are split whole. Empty: the id itself."""

    @field_validator("family")
    @classmethod
    def _one_group(cls, value: str) -> str:
        try:
            groups = re.compile(value).groups
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        if value and groups != 1:
            raise ValueError(f"one group names the family; this has {groups}")
        return value

    @model_validator(mode="after")
    def _leaves_train(self) -> "Splits":
        if self.eval + self.held_out >= 1:
            raise ValueError("eval and held_out leave nothing to train on; their sum must be below 1")
        return self
