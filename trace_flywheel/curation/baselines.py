"""The formulas of group advantages, over plain numbers: no tables, so that a command line starts without them.

grpo: (r - mean) / (std + eps), sample standard deviation (ddof 1), as in BenchFlow and TRL.
loo: r - mean of the others.
dr-grpo: r - mean, as in Dr. GRPO (arXiv:2503.20783): no standard deviation, so easy and hard tasks weigh alike.
max-rl: (r - mean) / mean, as in prime-rl; a mean that is not above 0 gives 0.0 and the flag `non_positive_mean`.

Sums are `math.fsum` (exactly rounded, so free of order). Zero spread means max == min and gives 0.0, never a division.
"""

import math
from collections.abc import Sequence

from trace_flywheel.records.normalisation import Normalisation

FORMULAS: dict[str, str] = {
    "grpo": "advantage = (reward - mean) / (std + eps); mean and sample std (ddof 1) over the scored rollouts of the"
    " group",
    "loo": "advantage = reward - mean(rewards of the other scored rollouts of the group)",
    "dr-grpo": "advantage = reward - mean; mean over the scored rollouts of the group",
    "max-rl": "advantage = (reward - mean) / mean; mean over the scored rollouts of the group; 0 if mean <= 0",
}
UNREADABLE, NEVER_CALLED, UNSCORED = "withheld_unreadable", "withheld_never_called", "withheld_unscored"
SINGLE = "single_scored_rollout"


def mean_and_std(rewards: Sequence[float]) -> tuple[float | None, float | None]:
    """Mean (None of nothing) and sample standard deviation (None below two)."""
    n = len(rewards)
    if n == 0:
        return None, None
    mean = math.fsum(rewards) / n
    if n == 1:
        return mean, None
    if max(rewards) == min(rewards):
        return mean, 0.0
    return mean, math.sqrt(math.fsum((r - mean) ** 2 for r in rewards) / (n - 1))


def advantages(rewards: Sequence[float], normalisation: Normalisation, eps: float = 1e-4) -> list[float]:
    """One advantage per reward. All are finite and there are two or more, else ValueError."""
    n = len(rewards)
    if n < 2:
        raise ValueError("an advantage needs two rewards: one has no baseline")
    if not all(map(math.isfinite, rewards)):
        raise ValueError("a reward is no finite number")
    if max(rewards) == min(rewards):
        return [0.0] * n
    if normalisation == "loo":
        total = math.fsum(rewards)
        return [r - (total - r) / (n - 1) for r in rewards]
    mean = math.fsum(rewards) / n
    if normalisation == "dr-grpo":
        return [r - mean for r in rewards]
    if normalisation == "max-rl":
        return [0.0] * n if no_baseline(normalisation, mean) else [(r - mean) / mean for r in rewards]
    std = math.sqrt(math.fsum((r - mean) ** 2 for r in rewards) / (n - 1))
    return [(r - mean) / (std + eps) for r in rewards]


def no_baseline(normalisation: Normalisation, mean: float) -> bool:
    """Whether the formula cannot divide by this mean: all advantages are 0.0 and the group says `non_positive_mean`."""
    return normalisation == "max-rl" and mean <= 0


def group_id(key: dict[str, str | None]) -> str:
    """`task=…|agent=…` in the order of the key; null is spelt `null`."""
    return "|".join(f"{name}={'null' if value is None else value}" for name, value in key.items())
