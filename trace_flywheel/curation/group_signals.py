"""Advantages of one conversion: BenchFlow's rows and blocks, over a plain list of trials.

`convert --group-advantage` follows BenchFlow where the assets are stricter: every scored trial is a member, whatever
grader or error it has. A group with a member that has no score, no readable result or no call that reached the model
is withheld whole; an attempt that was retried counts nowhere.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from trace_flywheel.curation.baselines import (
    FORMULAS,
    NEVER_CALLED,
    SINGLE,
    UNREADABLE,
    UNSCORED,
    advantages,
    group_id,
    mean_and_std,
    no_baseline,
)
from trace_flywheel.records.normalisation import Normalisation


class Member(msgspec.Struct, frozen=True):
    """One trial. `key` holds a value for each field that groups may be made by."""

    key: dict[str, str | None]
    reward: float | None = None
    """Finite, or None where the trial has no score."""
    error: str | None = None
    """Category of the error it ended with; a scored one stays a member."""
    unreadable: bool = False
    never_called: bool = False
    retried: bool = False


class Signal(msgspec.Struct, frozen=True):
    """What a member's rows carry. `group` is the block of the row; a withheld group gives no rows."""

    advantage: float | None
    group: dict[str, Any]


def group_signals(
    members: Sequence[Member], by: Sequence[str], normalisation: Normalisation, eps: float = 1e-4
) -> tuple[list[Signal], list[dict[str, Any]]]:
    """A signal per member, in their order, and the block of every group in the order of first members.

    Blocks hold `id, by, key, normalisation, formula, rollouts, scored, mean, std, std_ddof, eps`, `withheld` where
    the group is and `non_positive_mean` where max-rl has no baseline; a member's own adds `error` and
    `excluded` (`retried`, `unscored`, `single_scored_rollout`).
    """
    grouped: dict[str, list[int]] = {}
    for i, member in enumerate(members):
        grouped.setdefault(group_id({key: member.key.get(key) for key in by}), []).append(i)
    signals: list[Signal | None] = [None] * len(members)
    blocks = []
    for name, positions in grouped.items():
        samples = [i for i in positions if not members[i].retried]
        with_score = [i for i in samples if members[i].reward is not None]
        rewards = [float(r) for i in with_score if (r := members[i].reward) is not None]
        mean, std = mean_and_std(rewards)
        block: dict[str, Any] = {
            "id": name,
            "by": list(by),
            "key": {key: members[positions[0]].key.get(key) for key in by},
            "normalisation": normalisation,
            "formula": FORMULAS[normalisation],
            "rollouts": len(samples),
            "scored": len(rewards),
            "mean": mean,
            "std": std,
            "std_ddof": 1,
            "eps": eps,
        }
        withheld = _withheld([members[i] for i in samples])
        if withheld is not None:
            block["withheld"] = withheld
        elif mean is not None and no_baseline(normalisation, mean):
            block["non_positive_mean"] = True
        blocks.append(block)
        values: dict[int, float] = {}
        if withheld is None and len(rewards) > 1:
            values = dict(zip(with_score, advantages(rewards, normalisation, eps), strict=True))
        for i in positions:
            own = dict(block)
            if members[i].error is not None:
                own["error"] = members[i].error
            if members[i].retried:
                own["excluded"] = "retried"
            elif members[i].reward is None:
                own["excluded"] = "unscored"
            elif withheld is None and i not in values:
                own["excluded"] = SINGLE
            signals[i] = Signal(advantage=values.get(i), group=own)
    return [signal for signal in signals if signal is not None], blocks


def _withheld(samples: Sequence[Member]) -> str | None:
    if any(member.unreadable for member in samples):
        return UNREADABLE
    if any(member.never_called for member in samples):
        return NEVER_CALLED
    if any(member.reward is None for member in samples):
        return UNSCORED
    return None
