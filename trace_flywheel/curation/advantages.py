"""Group advantages: how much better a rollout did than the others of its group.

The group is what its key says (`task=…|agent=…`), taken whole and before any filter, so that no filter moves a
baseline. Inside it only comparable rewards meet (one grader, version and scale). A group with a member that cannot be
read, never reached the model or has no score is withheld whole: its baseline would be that of another group.
The formulas are in `baselines`.
"""

import numpy as np
import pandas as pd

from trace_flywheel.curation.baselines import (
    FORMULAS,
    NEVER_CALLED,
    SINGLE,
    UNREADABLE,
    UNSCORED,
    advantages,
    group_id,
    mean_and_std,
)
from trace_flywheel.curation.comparable import COMPARABLE, codes, finite_reward, scored
from trace_flywheel.curation.decisions import drops
from trace_flywheel.records.fate import Stage
from trace_flywheel.settings import Groups

COLUMN = {"task": "task_id"}
"""Columns of the index that are not named as their group key."""


def group_table(frame: pd.DataFrame, members: np.ndarray, groups: Groups, lost: pd.DataFrame) -> pd.DataFrame:
    """Advantages of all rollouts: one row per row of `frame`, in its order.

    `members` masks the rollouts that count as attempts (the others, dropped as the same rollout or retried, get the
    group id alone). `lost` holds the identity of rollouts that could not be read (`task_id`, `agent`, `model`, `job`;
    null where unknown): each withholds every group that it may belong to.

    Columns: `group_id`, `advantage` (NaN where there is none), `reason` (None, a reason of stage `groups`, or
    `mixed_graders` of stage `convertible`), `zero_spread`, `non_positive_mean`,
    `group_size` (members, scored or not), `scored`, `mean` and `std` (of the comparable rewards),
    `normalisation`, `formula`, `eps`. Texts that many rows share are categories.
    """
    columns = [COLUMN.get(key, key) for key in groups.by]
    group = codes(frame, columns)
    n_groups = int(group.max()) + 1 if len(frame) else 0
    first = np.zeros(n_groups, dtype=np.int64)
    first[group[::-1]] = np.arange(len(frame))[::-1]
    keys = frame[columns].iloc[first].astype(object)
    keys = keys.where(keys.notna(), None).reset_index(drop=True)
    ids = np.array([group_id(dict(zip(groups.by, k, strict=True))) for k in keys.itertuples(index=False)], dtype=object)

    counts = scored(frame) & members
    cell = codes(frame.assign(_group=group), ["_group", *COMPARABLE])
    n_cells = int(cell.max()) + 1 if len(frame) else 0
    in_cell = np.bincount(cell[counts], minlength=n_cells)
    in_group = np.bincount(group[counts], minlength=n_groups)

    unreadable = _may_hold(keys.rename(columns=dict(zip(columns, groups.by, strict=True))), lost)
    never_called = np.zeros(n_groups, dtype=bool)
    never_called[group[members & frame["never_called"].to_numpy(dtype=bool)]] = True
    unscored = np.zeros(n_groups, dtype=bool)
    if groups.unscored == "withhold":
        unscored[group[members & ~counts]] = True

    advantage, mean, std, flat = _statistics(finite_reward(frame), cell, np.flatnonzero(counts), n_cells, groups)
    alone = in_cell[cell] < 2
    conditions = [
        ~members,
        unreadable[group],
        never_called[group],
        unscored[group] | ~counts,
        alone & (in_group[group] >= 2),
        alone,
    ]
    reasons = np.array([None, UNREADABLE, NEVER_CALLED, UNSCORED, "mixed_graders", SINGLE, None], dtype=object)
    which = np.select(conditions, range(6), default=6)
    named, distinct = pd.factorize(ids)
    given = which == 6
    return pd.DataFrame(
        {
            "group_id": pd.Categorical.from_codes(named[group], pd.Index(distinct, dtype="str")),
            "advantage": np.where(given, advantage, np.nan),
            "reason": pd.Series(reasons[which], dtype=object),
            "zero_spread": given & flat[cell],
            "non_positive_mean": given & (mean[cell] <= 0) & (groups.normalisation == "max-rl"),
            "group_size": np.bincount(group[members], minlength=n_groups)[group],
            "scored": in_cell[cell],
            "mean": mean[cell],
            "std": std[cell],
            "normalisation": _same(groups.normalisation, len(frame)),
            "formula": _same(FORMULAS[groups.normalisation], len(frame)),
            "eps": groups.eps,
        }
    )


def _same(text: str, n: int) -> pd.Categorical:
    """One text for n rows, held once."""
    return pd.Categorical.from_codes(np.zeros(n, dtype=np.int8), pd.Index([text], dtype="str"))


def policy_ages(frame: pd.DataFrame) -> np.ndarray:
    """Days between the last finish of each rollout's policy and the newest of all finishes.

    A rollout without a policy version is as old as itself; one without a time has no age (NaN).
    """
    finished = pd.to_datetime(frame["finished_at"], errors="coerce", utc=True, format="ISO8601")
    last = finished.groupby(frame["policy_version"]).transform("max").fillna(finished)
    days: np.ndarray = (finished.max() - last).dt.total_seconds().to_numpy(dtype=np.float64) / 86_400
    return days


def stale_policies(frame: pd.DataFrame, alive: np.ndarray, max_age: float | None) -> pd.DataFrame:
    """Drops of alive rollouts whose policy is older than `max_age` days (`policy_ages`)."""
    days = policy_ages(frame)
    rows = np.flatnonzero(alive & (days > max_age)) if max_age is not None else np.zeros(0, dtype=np.int64)
    policies = frame["policy_version"].astype(object).where(frame["policy_version"].notna(), None).iloc[rows].tolist()
    evidence = [
        {"policy_version": policy, "age_days": round(age, 3), "max_policy_age": max_age}
        for policy, age in zip(policies, days[rows].tolist(), strict=True)
    ]
    return drops(Stage.GROUPS, rows, "stale_policy", evidence)


def _statistics(
    rewards: np.ndarray, cell: np.ndarray, rows: np.ndarray, n_cells: int, groups: Groups
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Advantage per rollout; mean, std and zero spread per cell of comparable scored rollouts (`rows`)."""
    order = rows[np.argsort(cell[rows], kind="stable")]
    starts = np.searchsorted(cell[order], np.arange(n_cells + 1)).tolist()
    values = rewards[order].tolist()
    advantage = np.full(len(rewards), np.nan)
    mean, std = np.full(n_cells, np.nan), np.full(n_cells, np.nan)
    flat = np.zeros(n_cells, dtype=bool)
    given = np.full(len(order), np.nan)
    for c in range(n_cells):
        start, stop = starts[c], starts[c + 1]
        of_cell = values[start:stop]
        m, s = mean_and_std(of_cell)
        mean[c], std[c] = np.nan if m is None else m, np.nan if s is None else s
        if s is not None:
            flat[c] = s == 0.0
            given[start:stop] = advantages(of_cell, groups.normalisation, groups.eps)
    advantage[order] = given
    return advantage, mean, std, flat


def _may_hold(keys: pd.DataFrame, lost: pd.DataFrame) -> np.ndarray:
    """Mask of the groups (one row of `keys` each) that a lost rollout may belong to: all that it knows agrees."""
    held = np.zeros(len(keys), dtype=bool)
    known = [key for key in ("task", "agent", "model", "job") if key in keys.columns]
    if "task" not in known or lost.empty:
        return held
    identities = lost[[COLUMN.get(key, key) for key in known]].set_axis(known, axis=1).drop_duplicates()
    identities = identities[identities["task"].notna()]
    for pattern, some in identities.groupby([identities[key].notna() for key in known]):
        shared = [key for key, has in zip(known, pattern, strict=True) if has]
        hit = (
            keys[shared].astype(object).merge(some[shared].astype(object).drop_duplicates(), how="left", indicator=True)
        )
        held |= (hit["_merge"] == "both").to_numpy()
    return held
