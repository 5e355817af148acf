"""Stage `pairs`: from each group of attempts at one task, a better and a worse answer to the same prompt.

A group is (task, context) under one grader, version and scale. mu and sigma (population, ddof 0) are of all its scored
members, as they were before any filter; the pair itself is made of members that are still alive. Chosen is the
passing member with the highest reward (then judge score, then seeded hash); rejected the failing one nearest to the
rule's target (then higher reward, the harder negative, then seeded hash). Neither ended with an error or was cut off:
its ending is no answer of the model's, neither one to learn nor (unless set) one to avoid. When that combination cannot
be a pair the next one in this order is tried, and when none can, the first one's reason is the group's.

Every alive row ends in a pair or in exactly one drop. The first reason that applies, in this order: `mixed_graders`,
`no_contrast` (`prompt_mismatch` where another context holds the contrast), `group_too_small`, `zero_spread`, then that
of the combination.
"""

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from trace_flywheel.curation.comparable import (
    descending,
    finite_reward,
    judge_scores,
    seeded_hash,
)
from trace_flywheel.curation.decisions import drops
from trace_flywheel.curation.divergence import Attempt, Refusal, divergence
from trace_flywheel.curation.pair_groups import Candidates, PairGroups, pair_groups, refused_groups
from trace_flywheel.curation.pair_ranking import most_telling, strength
from trace_flywheel.records.fate import Stage
from trace_flywheel.settings import Pairs

SIGMAS = {"mu-2sigma": 2.0, "mu-sigma": 1.0, "max-min": math.inf}
"""Standard deviations below the mean at which the rejected member is sought; of `max-min` the lowest."""


class PairSet(msgspec.Struct, frozen=True):
    """The answer of `build_pairs`."""

    table: pd.DataFrame
    """One row per pair, sorted by task and delta: `chosen` and `rejected` (rows of the frame), `task_id`, `group_id`,
    `delta`, `delta_source` (`judge` or `reward`), `strength` (the delta as a share of its source's range, what pairs
    are ranked by), `rejected_is_min` (of all scored members), `group_size` (scored members), `mu`, `sigma`, `prefix`
    (number of messages shared, the prompt)."""
    drops: pd.DataFrame
    built: int
    """Pairs before `per_task` and `keep`."""


class _Pair(msgspec.Struct, frozen=True):
    chosen: int
    rejected: int
    delta: float
    by_judge: bool
    prefix: int


class _Combination:
    """One passing and one failing row: the pair they make, or why they make none."""

    def __init__(
        self, frame: pd.DataFrame, hashes: Sequence[Sequence[int]], norms: Sequence[Sequence[int]], delta_source: str
    ) -> None:
        self._traces: list[str] = frame["trace_id"].tolist()
        self._roles: list[str] = frame["roles"].tolist()
        self._hashes, self._norms = hashes, norms
        self._rewards = finite_reward(frame)
        self._judges = judge_scores(frame) if delta_source == "judge" else np.full(len(frame), np.nan)
        self._judged_by: list[str | None] = frame["judge"].tolist()

    def __call__(self, chosen: int, rejected: int) -> _Pair | Refusal:
        by_reward = float(self._rewards[chosen] - self._rewards[rejected])
        alike = self._judged_by[chosen] == self._judged_by[rejected]
        by_judge = float(self._judges[chosen] - self._judges[rejected]) if alike else math.nan
        delta = by_reward if math.isnan(by_judge) else by_judge
        answer = (
            divergence(self._attempt(chosen), self._attempt(rejected))
            if min(by_reward, delta) > 0
            else Refusal("non_positive_delta", {"delta": delta, "reward_delta": by_reward})
        )
        if isinstance(answer, int):
            return _Pair(chosen, rejected, delta, not math.isnan(by_judge), answer)
        sides = {"chosen": self._traces[chosen], "rejected": self._traces[rejected]}
        return Refusal(answer.reason, {**sides, **answer.evidence})

    def _attempt(self, row: int) -> Attempt:
        return Attempt(self._roles[row], self._hashes[row], self._norms[row])


def build_pairs(
    frame: pd.DataFrame,
    alive: np.ndarray,
    members: np.ndarray,
    hashes: Sequence[Sequence[int]],
    norms: Sequence[Sequence[int]],
    pairs: Pairs,
    seed: int,
) -> PairSet:
    """Pairs among the `alive` rows, which passed all stages before and have verdict and reward.

    `members` masks the attempts that count in statistics (not dropped as the same rollout or retried); `hashes` and
    `norms` are the index's `message_hashes` and `message_norms`, by row.
    """
    groups = pair_groups(frame, members)
    rewards, judges, tie = finite_reward(frame), judge_scores(frame), seeded_hash(frame, seed)
    passing = alive & (frame["verdict"] == "pass").to_numpy(dtype=bool)
    failing = alive & (frame["verdict"] == "fail").to_numpy(dtype=bool)
    fit = ~unfit(frame)
    chosen_from, rejected_from = passing & fit, failing & (fit | pairs.errored_rejected)
    candidates = Candidates(passing, failing, chosen_from, rejected_from)
    refusals = refused_groups(frame, groups, alive, candidates, pairs.min_group)

    combine = _Combination(frame, hashes, norms, pairs.delta_source)
    cell = groups.cell
    sigmas = SIGMAS[pairs.rule]
    target = groups.mean - sigmas * groups.sigma if math.isfinite(sigmas) else groups.lowest
    # Rounded, so that members on both sides of the target at one distance are equal in binary too.
    distance = np.round(np.abs(rewards - target[cell]), 12)
    best = _by_group(cell, chosen_from, (tie, descending(judges), descending(rewards)))
    worst = _by_group(cell, rejected_from, (tie, descending(rewards), distance))
    found: list[_Pair] = []
    for group in sorted(best.keys() & worst.keys() - refusals.keys()):
        answer = _pairs_of_group(best[group], worst[group], combine, pairs.per_task)
        if isinstance(answer, Refusal):
            refusals[group] = answer
        else:
            found.extend(answer)
    built = _table(frame, groups, found, rewards)
    built["strength"] = strength(frame, members, built)
    chosen, below = most_telling(built, tie, pairs)
    fates = _fates(alive, cell, refusals, built, chosen, below)
    return PairSet(table=chosen.drop(columns=["cell"]).reset_index(drop=True), drops=fates, built=len(found))


def unfit(frame: pd.DataFrame) -> np.ndarray:
    """Mask of the rollouts whose end says nothing about their answer: they are no bad example."""
    mask: np.ndarray = frame["error_category"].notna().to_numpy(dtype=bool) | frame["is_truncated"].to_numpy(dtype=bool)
    return mask


def _by_group(cell: np.ndarray, mask: np.ndarray, keys: tuple[np.ndarray, ...]) -> dict[int, list[int]]:
    """Masked rows of each group, best first; `keys` as in `np.lexsort`, the last one first."""
    rows = np.flatnonzero(mask)
    rows = rows[np.lexsort((*(key[rows] for key in keys), cell[rows]))]
    names, starts = np.unique(cell[rows], return_index=True)
    parts = np.split(rows, starts[1:])
    return {name: part.tolist() for name, part in zip(names.tolist(), parts, strict=False)}


def _pairs_of_group(passing: list[int], failing: list[int], combine: _Combination, limit: int) -> list[_Pair] | Refusal:
    """Up to `limit` pairs that share no member, or the reason of the first combination."""
    found: list[_Pair] = []
    first: Refusal | None = None
    taken: set[int] = set()
    for chosen in passing:
        for rejected in failing:
            if rejected in taken:
                continue
            answer = combine(chosen, rejected)
            if isinstance(answer, Refusal):
                first = first or answer
                continue
            found.append(answer)
            taken.add(rejected)
            break
        if len(found) == limit:
            break
    return found if found or first is None else first


def _table(frame: pd.DataFrame, groups: PairGroups, found: list[_Pair], rewards: np.ndarray) -> pd.DataFrame:
    chosen = np.array([pair.chosen for pair in found], dtype=np.int64)
    rejected = np.array([pair.rejected for pair in found], dtype=np.int64)
    cell = groups.cell[chosen]
    named = frame.iloc[chosen][["task_id", "context_hash", "grader", "grader_version"]].astype(object)
    named = named.where(named.notna(), "null")
    return pd.DataFrame(
        {
            "chosen": chosen,
            "rejected": rejected,
            "task_id": named["task_id"].to_numpy(),
            "group_id": [
                f"task={task}|context={context}|grader={grader}|version={version}"
                for task, context, grader, version in named.itertuples(index=False)
            ],
            "delta": np.array([pair.delta for pair in found], dtype=np.float64),
            "delta_source": np.where(np.array([pair.by_judge for pair in found], dtype=bool), "judge", "reward"),
            "rejected_is_min": rewards[rejected] == groups.lowest[cell],
            "group_size": groups.size[cell],
            "mu": groups.mean[cell],
            "sigma": groups.sigma[cell],
            "prefix": np.array([pair.prefix for pair in found], dtype=np.int64),
            "cell": cell,
        }
    )


def _fates(
    alive: np.ndarray,
    cell: np.ndarray,
    refusals: dict[int, Refusal],
    built: pd.DataFrame,
    kept: pd.DataFrame,
    below: pd.DataFrame,
) -> pd.DataFrame:
    """A drop for every alive row that no kept pair uses."""
    used = set(kept["chosen"].tolist()) | set(kept["rejected"].tolist())
    cut = {
        row: {"delta": delta, "rank": len(kept) + place, "keep": len(kept)}
        for place, (chosen, rejected, delta) in enumerate(
            zip(below["chosen"].tolist(), below["rejected"].tolist(), below["delta"].tolist(), strict=True), start=1
        )
        for row in (chosen, rejected)
    }
    group_of = dict(zip(built["cell"].tolist(), built["group_id"].tolist(), strict=True))
    rows: dict[Stage, list[int]] = {Stage.PAIRS: [], Stage.CONVERTIBLE: []}
    reasons: list[str] = []
    evidence: dict[Stage, list[dict[str, Any]]] = {Stage.PAIRS: [], Stage.CONVERTIBLE: []}
    for row in np.flatnonzero(alive).tolist():
        if row in used:
            continue
        refusal = refusals.get(cell[row])
        if refusal is None:
            refusal = (
                Refusal("below_delta", cut[row])
                if row in cut
                else Refusal("not_selected_for_pair", {"group_id": group_of[cell[row]]})
            )
        stage = Stage.CONVERTIBLE if refusal.reason == "mixed_graders" else Stage.PAIRS
        rows[stage].append(row)
        evidence[stage].append(refusal.evidence)
        if stage is Stage.PAIRS:
            reasons.append(refusal.reason)
    mixed = drops(Stage.CONVERTIBLE, rows[Stage.CONVERTIBLE], "mixed_graders", evidence[Stage.CONVERTIBLE])
    refused = drops(Stage.PAIRS, rows[Stage.PAIRS], reasons, evidence[Stage.PAIRS])
    return pd.concat([mixed, refused], ignore_index=True)
