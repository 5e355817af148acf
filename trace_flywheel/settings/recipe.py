"""Sections about the mix and its depth classifier, and a recipe: one more family of datasets from the same index."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from trace_flywheel.records.shortage import shortage_of
from trace_flywheel.settings.decisions import Pairs, Selection
from trace_flywheel.settings.section import Section

LAYOUTS = Literal["messages", "prime-sft", "trl-sft", "trl-dpo", "kto"]


class Mix(Section):
    column: str = "depth"
    """What the shares are shares of: `depth`, or a column of rollouts as `agent`, `model`, `suite`, `task_id`."""
    target: dict[str, float] = Field(default_factory=lambda: {"single": 0.3, "multi": 0.5, "comparison": 0.2})
    """Shares of the targeted classes; they are divided by their sum. Untargeted ones keep their natural share."""
    shortage: str = "shrink"
    """`shrink` to the largest set that fits, `fail`, `renormalize` absent classes' shares, or `upsample(N)`."""
    unit: Literal["rollouts", "supervised_tokens"] = "rollouts"
    """What shares are shares of: each rollout counts 1, or as many tokens as it teaches."""
    mode: Literal["drop", "weight"] = "drop"
    """Leave surplus out, or keep every row with a `weight` in `provenance.parquet`."""
    depth_from: Literal["classifier", "trajectory", "both"] = "classifier"
    """A row's depth by its prompt, by the calls that were made, or by both; disagreement is reported."""
    min_confidence: float = Field(0.0, ge=0, le=1)
    """Confidence of the classifier below which a row's class is `uncertain`."""
    uncertain: Literal["exclude", "keep", "other"] = "exclude"
    """Leave uncertain rows out, keep their natural share, or count them as `other`."""

    @field_validator("shortage")
    @classmethod
    def _known(cls, value: str) -> str:
        shortage_of(value)
        return value

    @field_validator("target")
    @classmethod
    def _positive(cls, value: dict[str, float]) -> dict[str, float]:
        if not value or any(v < 0 for v in value.values()) or sum(value.values()) <= 0:
            raise ValueError("shares must be zero or more and at least one above zero")
        return value


class Depth(Section):
    """What the depth classifier of a family of datasets is trained on and judged by."""

    labels: tuple[Path, ...] = ()
    """Labelled prompts of your own, `{prompt, label}` a line, beside the seed set; lines with a null label wait."""
    seed_set: bool = True
    """Train on the prompts that come with the package too."""
    backend: Literal["ngrams", "embedding"] = "ngrams"
    """What it sees beside cues: n-grams, or sentence vectors too (extra `embedding`, forty times slower)."""
    held_out: tuple[Path, ...] = ()
    """Labelled prompts that it is judged by; without them by five folds of what it is trained on."""
    min_f1: float = Field(0.5, ge=0, le=1)
    """Macro-F1 below which a new classifier does not take the place of the one before."""


class Recipe(Section):
    """One more family of datasets from the same index: `NAME_sft`, `NAME_dpo`, `NAME_kto`, `NAME_rl`, `NAME_prompts`
    and `NAME_mix`. Absent fields follow the tree."""

    sources: tuple[str, ...] = ()
    """Source formats that take part; empty means all. So for the next three."""
    agents: tuple[str, ...] = ()
    """Agents that take part."""
    tasks: tuple[str, ...] = ()
    """Task ids that take part."""
    policies: tuple[str, ...] = ()
    """Policy versions that take part."""
    selection: Selection | None = None
    """A selection of its own, whole."""
    pairs: Pairs | None = None
    """Pair rules of its own, whole."""
    depth: Depth | None = None
    """A depth classifier of its own, whole: `NAME_depth_classifier`."""
    mix: Mix | None = None
    """A target mix of its own, whole."""
    layouts: tuple[LAYOUTS, ...] | None = None
    """Layouts of its own."""
