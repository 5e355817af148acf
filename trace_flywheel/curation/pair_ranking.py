"""Which of the pairs that were built are kept: the ones with the widest delta, task by task in turn.

Deltas of judges and of rewards on any scale stand in one ranking, so each is divided by the range of its source: the
declared scale of the rewards, else the distance between the highest and lowest score that the grader or judge gave.
"""

import numpy as np
import pandas as pd

from trace_flywheel.curation.comparable import COMPARABLE, codes, finite_reward, judge_scores, scored
from trace_flywheel.settings import Pairs


def strength(frame: pd.DataFrame, members: np.ndarray, built: pd.DataFrame) -> np.ndarray:
    """Each delta as a share of the range that its grader or judge uses."""
    rows = built["chosen"].to_numpy(dtype=np.int64)
    counts, rewards, judges = members & scored(frame), finite_reward(frame), judge_scores(frame)
    low, high = (frame[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in ("reward_low", "reward_high"))
    declared = high - low
    graders = _ranges(codes(frame, COMPARABLE), np.where(counts, rewards, np.nan))
    by_reward = np.where(declared > 0, declared, graders)[rows]
    by_judge = _ranges(codes(frame, ["judge"]), judges)[rows]
    spread = np.where((built["delta_source"] == "judge").to_numpy(dtype=bool), by_judge, by_reward)
    # Rounded, so that equal shares of different ranges are equal in binary too.
    share: np.ndarray = np.round(built["delta"].to_numpy(dtype=np.float64) / spread, 12)
    return share


def _ranges(source: np.ndarray, values: np.ndarray) -> np.ndarray:
    """By row: the distance between the highest and the lowest value of its source."""
    grouped = pd.Series(values).groupby(source)
    width: np.ndarray = (grouped.transform("max") - grouped.transform("min")).to_numpy(dtype=np.float64)
    return width


def most_telling(built: pd.DataFrame, tie: np.ndarray, pairs: Pairs) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The pairs kept, and those that `keep` left out: the best `per_task` of each task by delta, then by rounds.

    A group offers its first `per_task` pairs, whose order is the rule's: a wider delta further down does not overrule
    it. In round k every task offers its k-th best pair, so that no task fills the set alone.
    """
    ties = tie[built["chosen"].to_numpy()]
    keys = pd.DataFrame({"task": built["task_id"], "weaker": -built["strength"], "tie": ties})
    order = keys.sort_values(["task", "weaker", "tie"], kind="stable").index
    ordered = built.loc[order]
    turn = ordered.groupby("task_id", sort=False).cumcount()
    offered = ordered[turn < pairs.per_task]
    if pairs.keep == "all":
        return offered, offered.iloc[:0]
    rounds = keys.loc[offered.index].assign(turn=turn[offered.index])
    ranked = offered.loc[rounds.sort_values(["turn", "weaker", "tie"], kind="stable").index]
    kept, below = ranked.iloc[: pairs.keep], ranked.iloc[pairs.keep :]
    return offered.loc[offered.index.isin(kept.index)], below
