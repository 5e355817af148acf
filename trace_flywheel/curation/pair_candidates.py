"""The full candidate set of preference pairs: every passing with every failing member of a group, each accounted for.

A group of 500 attempts has up to 62,500 candidates, so none is stored: blocks of them are judged at once, in the order
of the group's rule. Of a block stay the counts by member of what became of its candidates, and the pairs that share no
member: what is kept grows with the attempts, never with their product.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from trace_flywheel.curation.ragged import Ragged

OUTCOMES = ("paired", "member_used", "non_positive_delta", "identical_responses", "user_divergence")
"""What becomes of a candidate: it is a pair; it could be one, but a member of it stands in a better pair; or why it
can be none."""
PAIRED, USED, NON_POSITIVE, IDENTICAL, PARTED = range(5)
BUILT = 2
"""The first outcomes are those of candidates that could be pairs."""
NONE = -1
_ASSISTANT = ord("a")
BLOCK = 1 << 17
"""Candidates that are judged at once; each takes some 100 bytes meanwhile."""
FEW = 256
"""Candidates of a group up to which it is judged with others: a table of its own would cost more than they do."""


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

    of_row: np.ndarray
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
        return cls(classes, [{}, *told])


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
    walk = _Walk(better, worse, scores, said)
    candidates = np.diff(better.offsets) * np.diff(worse.offsets)
    for large in np.flatnonzero(candidates > FEW).tolist():
        walk.table(large)
    few = np.flatnonzero(candidates <= FEW)
    for block in range(0, len(few), BLOCK // FEW):
        walk.list(few[block : block + BLOCK // FEW])
    found = np.flatnonzero(walk.partner != NONE)
    for side, members in zip(walk.ended, (found, walk.partner[found]), strict=True):
        paired = np.zeros(len(side), dtype=np.int64)
        paired[members] = 1
        side[:, USED], side[:, PAIRED] = side[:, PAIRED] - paired, paired
    group = np.repeat(np.arange(len(better)), np.diff(better.offsets))[found]
    place = np.arange(len(group)) - np.searchsorted(group, group)  # groups follow each other
    found, group = found[place < offer], group[place < offer]
    sides = better.values[found], worse.values[walk.partner[found]]
    return Matched(group, *sides, walk.prefix[found], *walk.ended)


def joined(blocks: Sequence[tuple[int, Matched]]) -> Matched:
    """The answers of blocks of groups that follow each other, each with the position of its first group, as one."""
    names = Matched.__struct_fields__
    first, *rest = (np.concatenate([getattr(one, name) for _, one in blocks]) for name in names)
    return Matched(first + np.repeat([start for start, _ in blocks], [len(one.group) for _, one in blocks]), *rest)


class _Walk:
    """Groups, each judged once. Members are known by their places in the lists of all groups."""

    def __init__(self, better: Ragged, worse: Ragged, scores: Scores, said: Conversations) -> None:
        self._better, self._worse, self._scores, self._said = better, worse, scores, said
        self._free = np.ones(len(worse.values), dtype=bool)
        self.partner = np.full(len(better.values), NONE, dtype=np.int64)
        """Of each passing member the failing one that it is paired with."""
        self.prefix = np.zeros(len(better.values), dtype=np.int64)
        """Messages that both share."""
        self.ended = tuple(np.zeros((len(side.values), len(OUTCOMES)), dtype=np.int64) for side in (better, worse))
        """By side: of each member how many of its candidates ended so; those that could be pairs as `PAIRED`."""

    def table(self, group: int) -> None:
        """A group by itself, as tables of passing by failing members."""
        start, stop = self._better.offsets[group : group + 2].tolist()
        others = slice(*self._worse.offsets[group : group + 2].tolist())
        free, failing = self._free[others], self._worse.values[others]
        size = max(1, BLOCK // len(failing))
        for first in range(start, stop, size):
            rows = slice(first, min(first + size, stop))
            outcome, prefix = _judged(self._better.values[rows, None], failing, self._scores, self._said)
            for code in (PAIRED, *range(BUILT, len(OUTCOMES))):
                ends = outcome == code
                self.ended[0][rows, code] = ends.sum(axis=1)
                self.ended[1][others, code] += ends.sum(axis=0)
            fit = outcome == PAIRED
            for row in np.flatnonzero(fit.any(axis=1)).tolist():
                left = fit[row] & free
                if left[at := int(left.argmax())]:
                    free[at] = False
                    self.partner[first + row], self.prefix[first + row] = others.start + at, prefix[row, at]

    def list(self, groups: np.ndarray) -> None:
        """Groups of few candidates together, all of these in one list."""
        starts = [side.offsets[groups] for side in (self._better, self._worse)]
        n = [side.offsets[groups + 1] - start for side, start in zip((self._better, self._worse), starts, strict=True)]
        many = n[0] * n[1]
        of = np.repeat(np.arange(len(groups)), many)
        number = np.arange(len(of)) - np.repeat(np.cumsum(many) - many, many)
        places = starts[0][of] + number // n[1][of], starts[1][of] + number % n[1][of]
        members = self._better.values[places[0]], self._worse.values[places[1]]
        outcome, prefix = _judged(*members, self._scores, self._said)
        for side, where in zip(self.ended, places, strict=True):
            np.add.at(side, (where, outcome), 1)
        fit = outcome == PAIRED
        for passing, failing, shared in zip(*(one[fit].tolist() for one in (*places, prefix)), strict=True):
            if self.partner[passing] == NONE and self._free[failing]:
                self._free[failing] = False
                self.partner[passing], self.prefix[passing] = failing, shared


def _judged(left: np.ndarray, right: np.ndarray, scores: Scores, said: Conversations) -> tuple[np.ndarray, np.ndarray]:
    """Rows held against each other, `divergence` and the deltas: the outcome of each candidate, `PAIRED` for all that
    could be pairs, and how many messages both sides share. The shapes of `left` and `right` fit as numpy's do: one list
    beside another, or a column of them and a line."""
    delta = scores.reward[left] - scores.reward[right]
    judged = scores.judge[left] - scores.judge[right]
    if not np.isnan(judged).all():
        same_judge = scores.judged_by[left] == scores.judged_by[right]
        delta = np.where(same_judge & ~np.isnan(judged), np.minimum(delta, judged), delta)
    real = _first_difference(said.norms, left, right)
    literal = _first_difference(said.hashes, left, right)
    answers = _answers(said.roles, left, right, literal)
    if (apart := real != literal).any():
        answers &= ~apart | _answers(said.roles, left, right, real)
    outcome = np.where(answers, np.int8(PAIRED), np.int8(PARTED))
    outcome[real == NONE] = IDENTICAL
    outcome[~(delta > 0)] = NON_POSITIVE
    return outcome, literal


def _first_difference(said: Ragged, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The first message at which two rows differ or one of them ends, `NONE` where they are equal."""
    rows = np.concatenate([left.ravel(), right.ravel()])
    at, ends = said.offsets[rows], said.offsets[rows + 1]
    shared = 0
    while (at < ends).all() and (said.values[at] == said.values[at[:1]]).all():  # most of a group's prompt
        at, shared = at + 1, shared + 1
    (a, b), (a_ends, b_ends) = (
        (one[: left.size].reshape(left.shape), one[left.size :].reshape(right.shape)) for one in (at, ends)
    )
    a_over, b_over = a >= a_ends, b >= b_ends
    first = np.where(a_over & b_over, np.int32(NONE), np.int32(shared))
    alike = (_at(said, a) == _at(said, b)) & ~(a_over | b_over)
    left_alike = np.flatnonzero(alike)
    a, b, a_ends, b_ends = (np.broadcast_to(one, first.shape)[alike] for one in (a, b, a_ends, b_ends))
    while len(left_alike):  # few: attempts at one task part at their first answer
        a, b, shared = a + 1, b + 1, shared + 1
        a_over, b_over = a >= a_ends, b >= b_ends
        apart = a_over | b_over | (_at(said, a) != _at(said, b))
        first.flat[left_alike[apart]] = np.where(a_over & b_over, NONE, shared)[apart]
        left_alike, a, b, a_ends, b_ends = (one[~apart] for one in (left_alike, a, b, a_ends, b_ends))
    return first


def _answers(roles: Ragged, left: np.ndarray, right: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Whether an assistant turn stands there on both sides."""
    both: np.ndarray = at != NONE
    for rows in (left, right):
        place = roles.offsets[rows] + at
        both = both & (place < roles.offsets[rows + 1]) & (_at(roles, place) == _ASSISTANT)
    return both


def _at(side: Ragged, places: np.ndarray) -> np.ndarray:
    """The values there; any where a place lies behind the last of them."""
    if not len(side.values):
        return np.zeros_like(places)
    found: np.ndarray = side.values[np.minimum(places, len(side.values) - 1)]
    return found
