"""Stages `selection` and `cap`: which passing rollouts become SFT rows.

A task keeps its own top fraction, never a global one: a hard task scores lower everywhere and would vanish. Three
routes are not ranked and do not count in the fraction: corrections, failing rollouts with step verdicts (they enter
masked) and ungraded rollouts of a source that accepts them.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from trace_flywheel.curation.comparable import (
    COMPARABLE,
    codes,
    descending,
    failed_around,
    finite_reward,
    judge_scores,
    seeded_hash,
)
from trace_flywheel.curation.decisions import drops, records
from trace_flywheel.records.fate import Stage
from trace_flywheel.settings import Selection


class Selected(msgspec.Struct, frozen=True):
    """The answer of `top_fraction`."""

    drops: pd.DataFrame
    thresholds: pd.DataFrame
    """Per task, grader, version and scale: `task_id`, the four, `passing`, `kept`, `threshold` (lowest reward kept)."""
    tied_share: float
    """Share of the ranked rollouts that stand on both sides of a cut with one reward and judge score: the hash
    decided among them."""


def top_fraction(frame: pd.DataFrame, alive: np.ndarray, selection: Selection, seed: int) -> Selected:
    """Keeps of each task's passing rollouts the best `ceil(n * keep_fraction)`, at least one, per comparable grader.

    Rank: reward, judge score, seeded content hash. Drops are `not_passing`, `infrastructure_error` and
    `below_fraction` (evidence: rank, of, threshold, keep_fraction).
    """
    judged = alive & ~frame["has_correction"].to_numpy(dtype=bool)
    around = judged & failed_around(frame)
    judged &= ~around
    failing = judged & (frame["verdict"] == "fail").to_numpy(dtype=bool)
    failing &= ~frame["has_step_verdicts"].to_numpy(dtype=bool)
    ranked = np.flatnonzero(judged & (frame["verdict"] == "pass").to_numpy(dtype=bool))

    rewards, judges = finite_reward(frame)[ranked], judge_scores(frame)[ranked]
    groups = codes(frame[["task_id", *COMPARABLE]].iloc[ranked], ["task_id", *COMPARABLE])
    tie = seeded_hash(frame[["content_hash"]].iloc[ranked], seed)
    order = np.lexsort((tie, descending(judges), descending(rewards), groups))
    rank, of = _ranks(groups, order)
    # Rounded first: 100 * 0.07 is 7.000000000000001 in binary and would keep 8.
    quota = np.maximum(1, np.ceil(np.round(of * selection.keep_fraction, 9))).astype(np.int64)
    last = order[(rank == quota)[order]]
    threshold, edge_judge = np.zeros(len(of)), np.zeros(len(of))
    threshold[groups[last]], edge_judge[groups[last]] = rewards[last], judges[last]
    threshold, edge_judge = threshold[groups], edge_judge[groups]
    below = rank > quota

    tied = (rewards == threshold) & ((judges == edge_judge) | (np.isnan(judges) & np.isnan(edge_judge)))
    crossed = np.zeros(len(of), dtype=bool)
    crossed[groups[tied & below]] = True
    dropped = np.flatnonzero(below)
    evidence: Iterator[dict[str, Any]] = (
        {"rank": int(rank[i]), "of": int(of[i]), "threshold": t, "keep_fraction": selection.keep_fraction}
        for i, t in zip(dropped.tolist(), threshold[dropped].tolist(), strict=True)
    )
    rows = [np.flatnonzero(around), np.flatnonzero(failing), ranked[dropped]]
    reasons = ["infrastructure_error"] * len(rows[0]) + ["not_passing"] * len(rows[1])
    why = records(frame[["error_by", "error_category"]], rows[0])
    verdicts: list[dict[str, Any]] = [{"verdict": "fail"}] * len(rows[1])
    thresholds = frame[["task_id", *COMPARABLE]].iloc[ranked[last]].reset_index(drop=True)
    return Selected(
        drops=drops(
            Stage.SELECTION,
            np.concatenate(rows),
            reasons + ["below_fraction"] * len(rows[2]),
            chain(why, verdicts, evidence),
        ),
        thresholds=thresholds.assign(passing=of[last], kept=quota[last], threshold=rewards[last]),
        tied_share=float((tied & crossed[groups]).mean()) if len(ranked) else 0.0,
    )


def task_cap(
    frame: pd.DataFrame, alive: np.ndarray, max_per_task: int, seed: int, task: Sequence[str] = ("task_id",)
) -> pd.DataFrame:
    """Drops rows over a task's cap; `task` are the columns that make one.

    Rank: newest policy, reward, judge score, seeded hash; corrections do not count.
    A policy is as new as the last rollout that it finished anywhere in the index.
    """
    rows = np.flatnonzero(alive & ~frame["has_correction"].to_numpy(dtype=bool))
    tasks = codes(frame[list(task)].iloc[rows], task)
    keys = (
        seeded_hash(frame[["content_hash"]].iloc[rows], seed),
        descending(judge_scores(frame)[rows]),
        descending(finite_reward(frame)[rows]),
        -_policy_age(frame)[rows],
        tasks,
    )
    rank, of = _ranks(tasks, np.lexsort(keys))
    over = np.flatnonzero(rank > max_per_task)
    evidence = ({"rank": int(rank[i]), "of": int(of[i]), "max_per_task": max_per_task} for i in over.tolist())
    return drops(Stage.CAP, rows[over], "over_task_cap", evidence)


def _ranks(groups: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rank (from 1) inside its group and the group's size, per row; `order` sorts by group, then best first."""
    sizes = np.bincount(groups)
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = np.arange(len(groups)) - starts[groups[order]] + 1
    of: np.ndarray = sizes[groups]
    return rank, of


def _policy_age(frame: pd.DataFrame) -> np.ndarray:
    """Nanoseconds since 1970 of the last finish of each row's policy; rows without policy or time are oldest."""
    finished = pd.to_datetime(frame["finished_at"], errors="coerce", utc=True, format="ISO8601")
    newest = finished.groupby(frame["policy_version"]).transform("max")
    result: np.ndarray = newest.astype("datetime64[ns, UTC]").astype("int64").to_numpy()
    return np.where(newest.isna(), np.iinfo(np.int64).min + 1, result)
