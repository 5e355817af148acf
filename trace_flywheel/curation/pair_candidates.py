"""The full candidate set of preference pairs: every passing with every failing member of a group, each accounted for.

A group of 500 attempts has up to 62,500 candidates, so none is stored: a compiled loop walks them in the order of the
group's rule, counts by member what became of them, and remembers the pairs that share no member. What it keeps grows
with the attempts, never with their product.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from trace_flywheel.curation.compiled import compiled, pays, plain
from trace_flywheel.curation.near_kernel import NONE
from trace_flywheel.curation.ragged import Ragged

OUTCOMES = ("paired", "member_used", "non_positive_delta", "identical_responses", "user_divergence")
"""What becomes of a candidate: it is a pair; it could be one, but a member of it stands in a better pair; or why it
can be none."""
PAIRED, USED, NON_POSITIVE, IDENTICAL, PARTED = range(5)
BUILT = 2
"""The first outcomes are those of candidates that could be pairs."""
_ASSISTANT = ord("a")
CANDIDATE_SECONDS = 2e-5
"""Of the walk as plain Python."""


class Scores(NamedTuple):
    """Of every row: its reward, judge score (NaN: none), and a number for who judged it."""

    reward: np.ndarray
    judge: np.ndarray
    judged_by: np.ndarray


class Conversations(NamedTuple):
    """Of every row: role letters, hashes of messages as recorded, and of their folded text."""

    roles: Ragged
    hashes: Ragged
    norms: Ragged


class Matched(msgspec.Struct, frozen=True):
    """The answer of `match`: the first pairs of each group, best first, and the outcomes of all candidates."""

    group: np.ndarray
    """Of each pair, the position of its group in the lists given."""
    chosen: np.ndarray
    rejected: np.ndarray
    prefix: np.ndarray
    """Messages that both share."""
    better: np.ndarray
    """(passing members in the order given, outcomes): how many of its candidates ended so."""
    worse: np.ndarray
    """The same of failing members."""


class Outcomes(NamedTuple):
    """What the candidates of each row came to. Few rows differ in it: a class each, and by class the counts."""

    of_row: list[int]
    """By row of the frame its class; 0 for a row without candidates."""
    counts: list[dict[str, int]]
    """By class how many candidates ended in which outcome, those of none left out."""

    @classmethod
    def of(
        cls, n: int, passing: Sequence[Sequence[int]], failing: Sequence[Sequence[int]], matched: Matched
    ) -> "Outcomes":
        """Of `n` rows; the other arguments are those and the answer of `match`."""
        rows = np.concatenate([Ragged.of(side).values for side in (passing, failing)])
        distinct, which = np.unique(np.concatenate([matched.better, matched.worse]), axis=0, return_inverse=True)
        classes = np.zeros(n, dtype=np.int64)
        classes[rows] = which.ravel() + 1
        told = [{name: n for name, n in zip(OUTCOMES, found, strict=True) if n} for found in distinct.tolist()]
        return cls(classes.tolist(), [{}, *told])


def letters(roles: Sequence[str], wanted: np.ndarray) -> Ragged:
    """Role letters as numbers, of the rows under a mask; nothing of others."""
    kept = [text if want else "" for text, want in zip(roles, wanted.tolist(), strict=True)]
    offsets = np.zeros(len(kept) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in kept], out=offsets[1:])
    return Ragged(np.frombuffer("".join(kept).encode("ascii"), dtype=np.uint8), offsets)


def match(
    passing: Sequence[Sequence[int]], failing: Sequence[Sequence[int]], scores: Scores, said: Conversations, offer: int
) -> Matched:
    """Of each group the first `offer` of the pairs that share no member, taken greedily in the order of its lists
    (best first).

    `passing` and `failing`: rows of each group.
    """
    better, worse = Ragged.of(passing), Ragged.of(failing)
    outcomes = (np.zeros((len(side.values), len(OUTCOMES)), dtype=np.int64) for side in (better, worse))
    better_outcomes, worse_outcomes = outcomes
    partner = np.full(len(better.values), NONE, dtype=np.int64)
    prefix = np.zeros(len(better.values), dtype=np.int64)
    candidates = int((np.diff(better.offsets) * np.diff(worse.offsets)).sum())
    walk = _walk if pays("pairs", candidates * CANDIDATE_SECONDS) else plain(_walk)
    walk(
        *(better.values, better.offsets, worse.values, worse.offsets),
        *scores,
        *(said.roles.values, said.roles.offsets),
        *(said.hashes.values, said.hashes.offsets, said.norms.values, said.norms.offsets),
        *(np.zeros(len(worse.values), dtype=np.bool_), partner, prefix, better_outcomes, worse_outcomes),
    )
    found = np.flatnonzero(partner != NONE)
    group = np.repeat(np.arange(len(better)), np.diff(better.offsets))[found]
    first = np.searchsorted(group, group)  # groups follow each other
    offered = np.arange(len(group)) - first < offer
    found, group = found[offered], group[offered]
    sides = better.values[found], worse.values[partner[found]]
    return Matched(group, *sides, prefix[found], better_outcomes, worse_outcomes)


@compiled
def _walk(
    better: np.ndarray,
    better_starts: np.ndarray,
    worse: np.ndarray,
    worse_starts: np.ndarray,
    reward: np.ndarray,
    judge: np.ndarray,
    judged_by: np.ndarray,
    roles: np.ndarray,
    role_starts: np.ndarray,
    hashes: np.ndarray,
    hash_starts: np.ndarray,
    norms: np.ndarray,
    norm_starts: np.ndarray,
    taken: np.ndarray,
    partner: np.ndarray,
    prefix: np.ndarray,
    better_outcomes: np.ndarray,
    worse_outcomes: np.ndarray,
) -> None:
    for group in range(len(better_starts) - 1):
        for i in range(better_starts[group], better_starts[group + 1]):
            chosen = better[i]
            for j in range(worse_starts[group], worse_starts[group + 1]):
                rejected = worse[j]
                delta = reward[chosen] - reward[rejected]
                judged = judge[chosen] - judge[rejected]
                if judged_by[chosen] == judged_by[rejected] and judged == judged:  # not NaN
                    delta = min(delta, judged)
                if delta > 0:
                    outcome, at = _parting(
                        chosen, rejected, roles, role_starts, hashes, hash_starts, norms, norm_starts
                    )
                else:
                    outcome, at = NON_POSITIVE, 0
                if outcome == PAIRED:
                    if partner[i] != NONE or taken[j]:
                        outcome = USED
                    else:
                        partner[i], prefix[i], taken[j] = j, at, True
                better_outcomes[i, outcome] += 1
                worse_outcomes[j, outcome] += 1


@compiled
def _parting(
    left: int,
    right: int,
    roles: np.ndarray,
    role_starts: np.ndarray,
    hashes: np.ndarray,
    hash_starts: np.ndarray,
    norms: np.ndarray,
    norm_starts: np.ndarray,
) -> tuple[int, int]:
    """(outcome, messages shared) of two conversations: `divergence` in a compiled loop."""
    real = _first_difference(norms, norm_starts, left, right)
    if real == NONE:
        return IDENTICAL, 0
    literal = _first_difference(hashes, hash_starts, left, right)
    for at in (literal, real):
        for row in (left, right):
            place = role_starts[row] + at
            if place >= role_starts[row + 1] or roles[place] != _ASSISTANT:
                return PARTED, literal
    return PAIRED, literal


@compiled
def _first_difference(values: np.ndarray, starts: np.ndarray, left: int, right: int) -> int:
    """The first place where two rows differ or one of them ends, -1 where they are equal."""
    a, b = starts[left], starts[right]
    n, m = starts[left + 1] - a, starts[right + 1] - b
    for k in range(min(n, m)):
        if values[a + k] != values[b + k]:
            return int(k)
    return NONE if n == m else int(min(n, m))
