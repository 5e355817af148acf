"""What became of a rollout: the stages that decide, the reasons they give, and the drop that names both.

Stages and reasons are the product's vocabulary: new ones are added, none is renamed. Every rollout that enters ends as
kept or as exactly one Drop, so that counts add up at every stage.
"""

from enum import StrEnum
from typing import Any

import msgspec


class Stage(StrEnum):
    """Where a rollout or row can be dropped, in the order of decisions."""

    READ = "read"
    SAME_ROLLOUT = "same_rollout"
    REDACT = "redact"
    CONVERTIBLE = "convertible"
    GOLDEN = "golden"
    QUALITY = "quality"
    EXACT_DUPLICATE = "exact_duplicate"
    SELECTION = "selection"
    PAIRS = "pairs"
    NEAR_DUPLICATE = "near_duplicate"
    CAP = "cap"
    SPLIT = "split"
    MIX = "mix"
    GROUPS = "groups"
    PUBLISH = "publish"


REASONS: dict[Stage, tuple[str, ...]] = {
    Stage.READ: (
        "unreadable_file",
        "bad_json",
        "bad_encoding",
        "line_too_long",
        "unknown_shape",
        "bad_tool_arguments",
        "orphan_tool_result",
        "conflicting_trace_id",
        "missing_result",
        "source_changed",
        "purged",
    ),
    Stage.SAME_ROLLOUT: ("same_rollout", "retried"),
    Stage.REDACT: ("secret_left", "number_finding", "rule_failed"),
    Stage.CONVERTIBLE: (
        "no_verdict",
        "no_reward",
        "non_finite_reward",
        "run_id_mismatch",
        "mixed_graders",
        "withdrawn",
        "superseded",
    ),
    Stage.GOLDEN: ("golden_id", "golden_near_duplicate"),
    Stage.QUALITY: (
        "truncated",
        "empty_answer",
        "unpaired_calls",
        "too_long",
        "nothing_to_train_on",
        "no_prompt",
        "mask_mismatch",
    ),
    Stage.EXACT_DUPLICATE: ("exact_duplicate", "corpus_exact_duplicate"),
    Stage.SELECTION: ("not_passing", "below_fraction", "infrastructure_error", "no_signal"),
    Stage.PAIRS: (
        "no_contrast",
        "group_too_small",
        "zero_spread",
        "non_positive_delta",
        "identical_responses",
        "prompt_mismatch",
        "user_divergence",
        "below_delta",
        "not_selected_for_pair",
        "used_in_pair",
        "errored_or_truncated",
    ),
    Stage.NEAR_DUPLICATE: ("near_duplicate", "corpus_near_duplicate", "same_meaning"),
    Stage.CAP: ("over_task_cap",),
    Stage.SPLIT: ("crosses_eval", "crosses_held_out"),
    Stage.MIX: ("mix_surplus", "not_in_target", "uncertain_class"),
    Stage.GROUPS: (
        "withheld_unscored",
        "withheld_unreadable",
        "withheld_never_called",
        "single_scored_rollout",
        "zero_spread",
        "stale_policy",
    ),
    Stage.PUBLISH: ("layout_refused", "finding_after_layout", "golden_after_layout"),
}


class Drop(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rollout or row that goes no further. Carries the best-known identity, so that its group knows of the loss."""

    stage: Stage
    reason: str
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)
    """What decided: the other side of a comparison, file and line, threshold and rank; never a secret's value."""
    run_id: str | None = None
    trace_id: str | None = None
    task_id: str | None = None
    agent: str | None = None
    model: str | None = None
    job: str | None = None
    path: str | None = None
    """Of the file, relative to its root."""

    def __post_init__(self) -> None:
        if self.reason not in REASONS[self.stage]:
            raise ValueError(f"{self.reason!r} is no reason of stage {self.stage}; see REASONS in records/fate.py")
