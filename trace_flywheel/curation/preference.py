"""Stage `pairs`: from each group of attempts at one task, a better and a worse answer to the same prompt.

A group is (task, context) under one grader, version and scale. mu and sigma (population, ddof 0) are of all its scored
members, as they were before any filter; pairs are made of members that are still alive. The candidates of a group are
all its passing with all its failing members, whatever is kept of them later. They are taken in the order of the rule:
the pass with the highest reward first (then judge score, then seeded hash), with each the failure nearest to the rule's
target (then higher reward, the harder negative, then seeded hash). Pairs of a group share no member. Neither side
ended with an error or was cut off: its ending is no answer of the model's, neither one to learn nor (unless set) one to
avoid. Of the pairs the widest are kept (`pair_ranking`).

Every candidate ends in a pair or in one of the other `OUTCOMES`, every alive row in a kept pair or in exactly one drop.
The first reason that applies, in this order: `mixed_graders`, `no_contrast` (`prompt_mismatch` where another context
holds the contrast), `group_too_small`, `zero_spread`, then that of the group's first candidate.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from trace_flywheel.curation.comparable import (
    codes,
    descending,
    finite_reward,
    judge_scores,
    seeded_hash,
)
from trace_flywheel.curation.divergence import Attempt, Refusal, divergence
from trace_flywheel.curation.pair_candidates import (
    BUILT,
    OUTCOMES,
    Conversations,
    Matched,
    Outcomes,
    Scores,
    joined,
    letters,
    match,
)
from trace_flywheel.curation.pair_fates import Losers, fates_of_pairs
from trace_flywheel.curation.pair_groups import Candidates, PairGroups, pair_groups, refused_groups
from trace_flywheel.curation.pair_ranking import most_telling, strength
from trace_flywheel.curation.ragged import Ragged
from trace_flywheel.settings import Pairs

SIGMAS = {"mu-2sigma": 2.0, "mu-sigma": 1.0, "max-min": math.inf}
"""Standard deviations below the mean at which the rejected member is sought; of `max-min` the lowest."""


MOST_AT_ONCE, BLOCKS = 25_000, 2
"""Rows whose messages stand in memory together, half a kilobyte each. Of more than twice as many it is half: every
block reads the columns of all runs again, three seconds of a million rollouts."""


class PairSet(msgspec.Struct, frozen=True):
    """The answer of `build_pairs`."""

    table: pd.DataFrame
    """One row per pair, sorted by task and delta: `chosen` and `rejected` (rows of the frame), `task_id`, `group_id`,
    `delta`, `delta_source` (`judge` or `reward`), `strength` (the delta as a share of its source's range, what pairs
    are ranked by), `rejected_is_min` (of all scored members), `group_size` (scored members), `mu`, `sigma`, `prefix`
    (number of messages shared, the prompt)."""
    drops: pd.DataFrame
    candidates: dict[str, int]
    """How many candidates ended in each outcome; `paired` before `per_task` and `keep`."""

    @property
    def built(self) -> int:
        """Candidates that could be pairs: the full set, before members are shared out and any filter."""
        return sum(self.candidates[name] for name in OUTCOMES[:BUILT])


def build_pairs(
    frame: pd.DataFrame,
    alive: np.ndarray,
    members: np.ndarray,
    messages: Callable[[np.ndarray], tuple[Ragged, Ragged]],
    pairs: Pairs,
    seed: int,
) -> PairSet:
    """Pairs among the `alive` rows, which passed all stages before and have verdict and reward.

    `members` masks the attempts that count in statistics (not dropped as the same rollout or retried); `messages` gives
    the index's `message_hashes` and `message_norms`, by row, of the rows under a mask. It is asked for those that are
    compared, block by block, and what it gives is not held any more when pairs and drops are told.
    """
    groups = pair_groups(frame, members)
    scores = _scores(frame, pairs.delta_source)
    judges, tie = judge_scores(frame), seeded_hash(frame, seed)
    passing = alive & (frame["verdict"] == "pass").to_numpy(dtype=bool)
    failing = alive & (frame["verdict"] == "fail").to_numpy(dtype=bool)
    fit = ~unfit(frame)
    chosen_from, rejected_from = passing & fit, failing & (fit | pairs.errored_rejected)
    candidates = Candidates(passing, failing, chosen_from, rejected_from)
    refusals = refused_groups(frame, groups, alive, candidates, pairs.min_group)

    cell = groups.cell
    sigmas = SIGMAS[pairs.rule]
    target = groups.mean - sigmas * groups.sigma if math.isfinite(sigmas) else groups.lowest
    # Rounded, so that members on both sides of the target at one distance are equal in binary too.
    distance = np.round(np.abs(scores.reward - target[cell]), 12)
    best = _by_group(cell, chosen_from, (tie, descending(judges), descending(scores.reward)))
    worst = _by_group(cell, rejected_from, (tie, descending(scores.reward), distance))
    open_groups = sorted(best.keys() & worst.keys() - refusals.keys())
    better, worse = [best[g] for g in open_groups], [worst[g] for g in open_groups]
    matched, refused = _matched(frame, better, worse, scores, messages, pairs.per_task)
    refusals |= {open_groups[number]: refusal for number, refusal in refused.items()}

    built = _table(frame, groups, matched, scores)
    built["strength"] = strength(frame, members, built)
    chosen, below = most_telling(built, tie, pairs)
    outcomes = Outcomes.of(len(frame), better, worse, matched)
    losers = Losers(refusals, outcomes, alive & ~fit, pairs.per_task)
    fates = fates_of_pairs(alive, cell, built, chosen, below, losers)
    counts = dict(zip(OUTCOMES, matched.better.sum(axis=0).tolist(), strict=True))
    return PairSet(chosen.drop(columns=["cell"]).reset_index(drop=True), fates, counts)


def _matched(
    frame: pd.DataFrame,
    better: Sequence[Sequence[int]],
    worse: Sequence[Sequence[int]],
    scores: Scores,
    messages: Callable[[np.ndarray], tuple[Ragged, Ragged]],
    per_task: int,
) -> tuple[Matched, dict[int, Refusal]]:
    """The pairs of each group of better and worse rows, and of a group without any why."""
    roles = frame["roles"].astype("category").astype(object).tolist()  # each text once, not once a row
    found: list[tuple[int, Matched]] = []
    refused: dict[int, Refusal] = {}
    for start, end in pairwise(_cuts(better, worse)):
        of_block = better[start:end], worse[start:end]
        matched, refusals = _matched_block(frame, *of_block, roles, scores, messages, per_task)
        found.append((start, matched))
        refused |= {start + number: refusal for number, refusal in refusals.items()}
    pa.default_memory_pool().release_unused()  # the messages would else stay this process's
    return joined(found), refused


def _matched_block(
    frame: pd.DataFrame,
    better: Sequence[Sequence[int]],
    worse: Sequence[Sequence[int]],
    roles: Sequence[str],
    scores: Scores,
    messages: Callable[[np.ndarray], tuple[Ragged, Ragged]],
    per_task: int,
) -> tuple[Matched, dict[int, Refusal]]:
    """`_matched` of some groups. Their messages go with it, before those of the next ones come."""
    compared = np.zeros(len(frame), dtype=bool)
    for side in (better, worse):
        compared[[row for rows in side for row in rows]] = True
    said = Conversations(letters(roles, compared), *messages(compared))
    matched = match(better, worse, scores, said, per_task)
    paired = set(matched.group.tolist())
    return matched, {
        number: _refusal(frame, passing[0], failing[0], scores, said)
        for number, (passing, failing) in enumerate(zip(better, worse, strict=True))
        if number not in paired
    }


def _cuts(better: Sequence[Sequence[int]], worse: Sequence[Sequence[int]]) -> list[int]:
    """Where groups are cut into blocks whose messages are read together; groups are never cut."""
    sizes = np.array([len(rows) + len(others) for rows, others in zip(better, worse, strict=True)], dtype=np.int64)
    most = max(MOST_AT_ONCE, -(-int(sizes.sum()) // BLOCKS))
    cuts, held = [0], 0
    for group, size in enumerate(sizes.tolist()):
        if held and held + size > most:
            cuts.append(group)
            held = 0
        held += size
    return [*cuts, len(sizes)]


def unfit(frame: pd.DataFrame) -> np.ndarray:
    """Mask of the rollouts whose end says nothing about their answer: they are no bad example."""
    mask: np.ndarray = frame["error_category"].notna().to_numpy(dtype=bool) | frame["is_truncated"].to_numpy(dtype=bool)
    return mask


def _scores(frame: pd.DataFrame, delta_source: str) -> Scores:
    judges = judge_scores(frame) if delta_source == "judge" else np.full(len(frame), np.nan)
    return Scores(finite_reward(frame), judges, codes(frame, ["judge"]))


def _by_group(cell: np.ndarray, mask: np.ndarray, keys: tuple[np.ndarray, ...]) -> dict[int, list[int]]:
    """Masked rows of each group, best first; `keys` as in `np.lexsort`, the last one first."""
    rows = np.flatnonzero(mask)
    rows = rows[np.lexsort((*(key[rows] for key in keys), cell[rows]))]
    names, starts = np.unique(cell[rows], return_index=True)
    parts = np.split(rows, starts[1:])
    return {name: part.tolist() for name, part in zip(names.tolist(), parts, strict=False)}


def _refusal(frame: pd.DataFrame, chosen: int, rejected: int, scores: Scores, said: Conversations) -> Refusal:
    """Why the first candidate of a group is no pair."""
    delta, by_reward, _ = (float(value[0]) for value in _deltas(scores, np.array([chosen]), np.array([rejected])))
    roles = frame["roles"]
    sides = {"chosen": frame["trace_id"].iat[chosen], "rejected": frame["trace_id"].iat[rejected]}
    if min(by_reward, delta) <= 0:
        return Refusal("non_positive_delta", {**sides, "delta": delta, "reward_delta": by_reward})
    answer = divergence(
        *(Attempt(str(roles.iat[row]), said.hashes[row], said.norms[row]) for row in (chosen, rejected)),
    )
    assert isinstance(answer, Refusal), "the loop and `divergence` agree"
    return Refusal(answer.reason, {**sides, **answer.evidence})


def _deltas(scores: Scores, chosen: np.ndarray, rejected: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(delta, delta of the rewards, whether the delta is the judges')."""
    by_reward = scores.reward[chosen] - scores.reward[rejected]
    judged = scores.judge[chosen] - scores.judge[rejected]
    by_judge = ~np.isnan(judged) & (scores.judged_by[chosen] == scores.judged_by[rejected])
    return np.where(by_judge, judged, by_reward), by_reward, by_judge


def _table(frame: pd.DataFrame, groups: PairGroups, matched: Matched, scores: Scores) -> pd.DataFrame:
    """The pairs that the groups offer."""
    chosen, rejected = matched.chosen, matched.rejected
    cell = groups.cell[chosen]
    delta, _, by_judge = _deltas(scores, chosen, rejected)
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
            "delta": delta,
            "delta_source": np.where(by_judge, "judge", "reward"),
            "rejected_is_min": scores.reward[rejected] == groups.lowest[cell],
            "group_size": groups.size[cell],
            "mu": groups.mean[cell],
            "sigma": groups.sigma[cell],
            "prefix": matched.prefix,
            "cell": cell,
        }
    )
