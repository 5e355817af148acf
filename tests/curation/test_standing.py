"""What a standing index finds is what comparing with every row finds, however it is cut, merged and bounded."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.curation.standing import corpus_of, digest, segment_of
from trace_flywheel.curation import segment as module
from trace_flywheel.curation.segment import Segment, columns_of, merged
from trace_flywheel.curation.sketch import Spans
from trace_flywheel.curation.standing import Corpus, Part

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "l", "st", "ck")]


def edited(rng: random.Random, text: Sequence[str], edits: int) -> str:
    out = list(text)
    for _ in range(edits):
        out[rng.randrange(len(out))] = rng.choice(WORDS)
    return " ".join(out)


def some_rows(rng: random.Random, n: int, bases: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    prompts = [edited(rng, rng.choice(bases), rng.choice((0, 1))) for _ in range(n)]
    return prompts, [edited(rng, rng.choice(bases), rng.choice((0, 0, 1, 4))) for _ in range(n)]


def similar(left: set[int], right: set[int], threshold: float) -> bool:
    return len(left & right) >= threshold * len(left | right)


def sets(spans: Spans) -> list[set[int]]:
    return [set(spans.values[a:b].tolist()) for a, b in zip(spans.offsets, spans.offsets[1:], strict=False)]


def first_near(corpus: tuple[list[str], list[str]], queries: tuple[Spans, Spans], threshold: float) -> list[int]:
    """By comparing with every row."""
    known = [sets(Spans.of_texts(texts)) for texts in corpus]
    asked = [sets(spans) for spans in queries]
    found = []
    for p, a in zip(*asked, strict=True):
        rows = range(len(known[0]))
        near = (r for r in rows if similar(p, known[0][r], threshold) and similar(a, known[1][r], threshold))
        found.append(next(near, -1))
    return found


@given(st.integers(0, 10**6), st.lists(st.integers(0, 40), max_size=3), st.sampled_from([0, 200, 10**6]))
@settings(max_examples=25, deadline=None)
def test_equals_brute_force_however_it_is_cut_and_bounded(seed: int, cuts: list[int], room: int) -> None:
    rng = random.Random(seed)
    bases = [[rng.choice(WORDS) for _ in range(60)] for _ in range(3)]
    rows, asked = some_rows(rng, 40, bases), some_rows(rng, 15, bases)
    queries = Spans.of_texts(asked[0]), Spans.of_texts(asked[1])
    names = [f"e{rng.randrange(30)}" for _ in range(40)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEAST", room)
        patch.setattr(module, "ROOM", 0)
        corpus = corpus_of(*rows, names, cuts)
    match, scores = corpus.near(*queries, 0.85)
    assert match.tolist() == first_near(rows, queries, 0.85)
    assert ((scores >= 0.85).all(axis=1) == (match >= 0)).all()
    wanted = [f"e{n}" for n in range(32)]
    expected = [names.index(name) if name in names else -1 for name in wanted]
    assert corpus.equal([digest(name) for name in wanted]).tolist() == expected
    assert [corpus.name(row) for row in (0, 39)] == ["train.jsonl:1", "train.jsonl:40"]


@given(st.integers(0, 10**6), st.sampled_from([0, 3000, 10**6]))
@settings(max_examples=20, deadline=None)
def test_a_merge_holds_what_its_parts_hold_without_what_is_to_go(seed: int, room: int) -> None:
    rng = random.Random(seed)
    bases = [[rng.choice(WORDS) for _ in range(30)] for _ in range(3)]
    prompts, answers = some_rows(rng, 30, bases)
    names = [f"e{rng.randrange(20)}" for _ in range(30)]
    keep = np.array([rng.random() < 0.7 for _ in range(30)])
    cut = rng.randrange(31)
    parts = [segment_of(prompts[s], answers[s], names[s], s.start) for s in (slice(0, cut), slice(cut, 30))]
    left = np.flatnonzero(keep).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEAST", room)
        patch.setattr(module, "ROOM", 0)
        one = Segment.of_columns(merged(parts, [keep[:cut], keep[cut:]]))
        whole = segment_of([prompts[r] for r in left], [answers[r] for r in left], [names[r] for r in left])
    assert one.numbers.tolist() == [r + 1 for r in left]
    assert one.places.tolist() == left
    for name in ("digests", "digest_rows", "keys", "key_rows", "signs", "sizes", "offsets", "values"):
        assert np.array_equal(getattr(one, name), getattr(whole, name)), name


def test_rows_that_are_away_stand_for_nobody() -> None:
    texts = [" ".join(WORDS[n : n + 30]) for n in (0, 0, 30)]
    corpus = corpus_of(texts, texts, ["x", "x", "y"])
    away = Corpus((Part("train.jsonl", corpus.parts[0].segments, corpus.parts[0].reread, (np.array([1, 0, 1]) > 0,)),))
    asked = Spans.of_texts([texts[0], texts[2]])
    assert corpus.near(asked, asked, 0.85)[0].tolist() == [0, 2]
    assert away.near(asked, asked, 0.85)[0].tolist() == [1, -1]
    assert away.equal([digest("x"), digest("y")]).tolist() == [1, -1]


def test_a_text_is_read_again_only_when_its_row_may_be_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST", 0)
    monkeypatch.setattr(module, "ROOM", 0)
    texts = [" ".join(WORDS[n : n + 40]) for n in range(0, 200, 40)]
    corpus = corpus_of(texts, texts, texts)
    read: list[int] = []

    def reread(places: np.ndarray) -> tuple[Spans, Spans]:
        read.extend(places.tolist())
        return corpus.parts[0].reread(places)

    counted = Corpus((Part("train.jsonl", corpus.parts[0].segments, reread),))
    asked = Spans.of_texts([texts[3], "something else that nobody has said before this"])
    assert counted.near(asked, asked, 0.85)[0].tolist() == [3, -1]
    assert read == [3]


def planted(rng: random.Random, target: float, length: int) -> tuple[str, str, float]:
    """Two texts whose shingles agree by about `target`, and by exactly how much."""
    left = [f"{rng.choice(WORDS)}{rng.randrange(1000)}" for _ in range(length)]
    edits = round(length * (1 - target) / (1 + target) / 5)
    right = list(left)
    for position in rng.sample(range(length // 5), edits):
        right[position * 5 + 2] = f"edit{rng.randrange(10**6)}"
    a, b = ({tuple(t[i : i + 5]) for i in range(length - 4)} for t in (left, right))
    return " ".join(left), " ".join(right), len(a & b) / len(a | b)


@pytest.mark.parametrize("room", [0, 10**9])
def test_recall_and_precision_on_labelled_pairs(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recall at least 0.99 at a Jaccard of 0.85 and more, also just above it; precision 1 whatever is kept."""
    monkeypatch.setattr(module, "LEAST", room)
    monkeypatch.setattr(module, "ROOM", 0)
    rng = random.Random(11)
    pairs = [
        planted(rng, rng.choice((0.80, 0.84, 0.86, 0.865, 0.87, 0.93)), rng.randrange(150, 400)) for _ in range(3000)
    ]
    prompts = [f"question {n} of this set please" for n in range(len(pairs))]
    corpus = corpus_of(prompts, [left for left, _, _ in pairs], prompts, cuts=[1000, 2900])
    match, _ = corpus.near(Spans.of_texts(prompts), Spans.of_texts([right for _, right, _ in pairs]), 0.85)
    share = np.array([share for _, _, share in pairs])
    found = match >= 0
    assert (match[found] == np.flatnonzero(found)).all()
    assert (share[found] >= 0.85).all()
    near, just = share >= 0.85, (share >= 0.85) & (share < 0.88)
    assert just.sum() > 800
    assert found[near].mean() >= 0.99
    assert found[just].mean() >= 0.99


def test_of_a_bucket_of_many_copies_the_first_one_is_named() -> None:
    text = " ".join(WORDS[:50])
    corpus = corpus_of([text] * 20_000, ["yes"] * 20_000, ["x"] * 20_000)
    asked = Spans.of_texts([text] * 2000), Spans.of_texts(["yes"] * 2000)
    match, _ = corpus.near(*asked, 0.85)
    assert set(match.tolist()) == {0}


def test_columns_give_the_segment_again() -> None:
    one = segment_of(["a b c d e f"], ["g"], ["n"])
    again = Segment.of_columns(columns_of(one))
    assert all(np.array_equal(getattr(one, f), getattr(again, f)) for f in Segment.__dataclass_fields__)
    with pytest.raises(KeyError):
        Segment.of_arrays({"numbers": one.numbers})
