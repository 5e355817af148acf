"""The tables of candidates say of each what `divergence` says, and its pairs share no member."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.curation import pair_candidates
from trace_flywheel.curation.divergence import Attempt, divergence
from trace_flywheel.curation.pair_candidates import OUTCOMES, Conversations, Scores, letters, match
from trace_flywheel.curation.ragged import Ragged

message = st.tuples(st.sampled_from("suat"), st.integers(0, 2), st.integers(0, 1))
attempt = st.tuples(
    st.lists(message, max_size=5), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([np.nan, 0.2, 0.7])
)


@given(st.lists(attempt, min_size=2, max_size=10), st.integers(0, 9), st.integers(1, 4))
def test_every_candidate_ends_as_the_rules_say(attempts: list, cut: int, offer: int) -> None:
    """A message is (role, folded text, spelling of it)."""
    cut = 1 + cut % (len(attempts) - 1)
    better, worse = list(range(cut)), list(range(cut, len(attempts)))
    roles = ["".join(role for role, _, _ in messages) for messages, _, _ in attempts]
    norms = [[10 * ord(role) + text for role, text, _ in messages] for messages, _, _ in attempts]
    hashes = [[100 * ord(role) + 10 * text + how for role, text, how in messages] for messages, _, _ in attempts]
    scores = Scores(*(np.array([a[i] for a in attempts]) for i in (1, 2)), np.zeros(len(attempts), dtype=np.int64))
    everyone = np.ones(len(attempts), dtype=bool)
    said = Conversations(letters(roles, everyone), Ragged.of(hashes), Ragged.of(norms))
    matched = match([better], [worse], scores, said, offer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_candidates, "BLOCK", 7)
        patch.setattr(pair_candidates, "FEW", 1)
        in_blocks = match([better], [worse], scores, said, offer)
    assert [one.tolist() for one in msgspec.structs.astuple(matched)] == [
        one.tolist() for one in msgspec.structs.astuple(in_blocks)
    ]

    pairs, expected, prefixes = [], [dict.fromkeys(OUTCOMES, 0) for _ in attempts], []
    for b in better:
        for w in worse:
            judged = scores.judge[b] - scores.judge[w]
            deltas = [scores.reward[b] - scores.reward[w], *([] if np.isnan(judged) else [judged])]
            parted = divergence(*(Attempt(roles[i], hashes[i], norms[i]) for i in (b, w)))
            if min(deltas) <= 0:
                outcome = "non_positive_delta"
            elif not isinstance(parted, int):
                outcome = parted.reason
            elif any(b in pair or w in pair for pair in pairs):
                outcome = "member_used"
            else:
                outcome = "paired"
                pairs.append((b, w))
                prefixes.append(parted)
            for member in (b, w):
                expected[member][outcome] += 1
    assert list(zip(matched.chosen.tolist(), matched.rejected.tolist(), strict=True)) == pairs[:offer]
    assert matched.prefix.tolist() == prefixes[:offer]
    told = [*matched.better.tolist(), *matched.worse.tolist()]
    assert told == [list(one.values()) for one in expected]


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=9), max_size=6), st.integers(1, 12))
def test_groups_never_meet(rewards: list[list[float]], few: int) -> None:
    """Judged together in one list or apart in tables, each group's answer is its own."""
    rows = np.split(np.arange(sum(map(len, rewards))), np.cumsum([len(one) for one in rewards])[:-1])
    groups = [(one[: len(one) // 2].tolist(), one[len(one) // 2 :].tolist()) for one in rows if len(one)]
    n = sum(map(len, rewards))
    texts = Ragged.of([[1, 2 + row % 3] for row in range(n)])
    said = Conversations(letters(["ua"] * n, np.ones(n, dtype=bool)), texts, texts)
    scores = Scores(
        np.array([reward for one in rewards for reward in one]), np.full(n, np.nan), np.zeros(n, dtype=np.int64)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_candidates, "FEW", few)
        patch.setattr(pair_candidates, "BLOCK", 13)
        together = match([b for b, _ in groups], [w for _, w in groups], scores, said, 2)
    alone = [match([b], [w], scores, said, 2) for b, w in groups]
    for name in ("chosen", "rejected", "prefix", "better", "worse"):
        assert getattr(together, name).tolist() == [v for one in alone for v in getattr(one, name).tolist()]
