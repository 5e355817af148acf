import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.curation.standing import corpus_of, digest
from trace_flywheel.curation.dedup import (
    corpus_exact_duplicates,
    corpus_near_duplicates,
    exact_duplicates,
    near_duplicates,
    precedence,
)
from trace_flywheel.curation.sketch import Spans

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "l", "st", "ck")]


def words(rng: random.Random, n: int) -> list[str]:
    return [rng.choice(WORDS) for _ in range(n)]


def prose(seed: int, n: int = 120) -> str:
    return " ".join(words(random.Random(seed), n))


def frame_of(rows: int, **columns: Sequence[Any]) -> pd.DataFrame:
    base: dict[str, Sequence[Any]] = {
        "run_id": ["run"] * rows,
        "trace_id": [f"t{i:03}" for i in range(rows)],
        "has_correction": [False] * rows,
        "judge_score": [None] * rows,
        "reward": [1.0] * rows,
        "content_hash": [f"c{i:03}" for i in range(rows)],
        "attempt_hash": [f"a{i:03}" for i in range(rows)],
        "exact_hash": [digest(f"e{i:03}") for i in range(rows)],
    }
    return pd.DataFrame({**base, **columns})


def near(prompts: list[str], answers: list[str], threshold: float = 0.85, **columns: Sequence[Any]) -> pd.DataFrame:
    frame = frame_of(len(prompts), **columns)
    return near_duplicates(
        frame,
        np.ones(len(frame), dtype=bool),
        precedence(frame),
        Spans.of_texts(prompts),
        Spans.of_texts(answers),
        threshold,
    )


def evidence(answer: pd.DataFrame) -> list[dict[str, Any]]:
    return [json.loads(text) for text in answer["evidence"]]


def test_precedence_is_correction_judge_reward_hash() -> None:
    frame = frame_of(
        6,
        has_correction=[False, False, False, True, False, False],
        judge_score=[None, 0.9, 0.5, None, None, None],
        reward=[0.9, 0.1, 1.0, None, 0.9, None],
        content_hash=["f", "e", "d", "c", "a", "b"],
    )
    assert np.argsort(precedence(frame)).tolist() == [3, 1, 2, 4, 0, 5]


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.none() | st.sampled_from([0.5, 0.9]),
            st.none() | st.sampled_from([-0.0, 0.0, 1.0]),
            st.sampled_from(["a", "\ue000", "\U00010000", "b"]),
            st.sampled_from(["x", "y"]),
        ),
        max_size=8,
    )
)
def test_precedence_is_the_order_of_its_keys_unknown_scores_last(rows: list[tuple]) -> None:
    corrected, judges, rewards, contents, traces = (
        (list(column) for column in zip(*rows, strict=True)) if rows else [[]] * 5
    )
    frame = frame_of(len(rows), has_correction=corrected, content_hash=contents, trace_id=traces)
    frame = frame.assign(judge_score=np.array(judges, dtype=float), reward=np.array(rewards, dtype=float))

    def key(row: int) -> tuple:
        scores = [(value is None, -(value or 0.0)) for value in (judges[row], rewards[row])]
        return (
            not corrected[row],
            *scores,
            contents[row],
            frame["attempt_hash"][row],
            frame["run_id"][row],
            traces[row],
        )

    assert np.argsort(precedence(frame)).tolist() == sorted(range(len(rows)), key=key)


def test_exact_duplicates_keep_the_best_and_name_it() -> None:
    frame = frame_of(5, exact_hash=["x", "y", "x", "x", "z"], reward=[0.2, 0.2, 0.9, 0.5, 0.1])
    answer = exact_duplicates(frame, np.ones(5, dtype=bool), precedence(frame))
    assert answer["row"].tolist() == [0, 3]
    assert set(answer["reason"]) == {"exact_duplicate"}
    assert evidence(answer) == [{"kept": {"run_id": "run", "trace_id": "t002"}}] * 2


def test_dead_rows_stand_for_nobody() -> None:
    frame = frame_of(3, exact_hash=["x", "x", "x"], reward=[0.9, 0.5, 0.4])
    answer = exact_duplicates(frame, np.array([False, True, True]), precedence(frame))
    assert answer["row"].tolist() == [2]
    assert evidence(answer)[0]["kept"]["trace_id"] == "t001"
    assert exact_duplicates(frame, np.zeros(3, dtype=bool), precedence(frame)).empty


def test_near_duplicate_names_the_kept_row_and_both_shares() -> None:
    text = prose(1).split()
    other = [*text[:60], "changed", *text[61:]]
    answer = near(["How is it done?"] * 2, [" ".join(text), " ".join(other)], reward=[0.5, 0.9])
    assert answer["row"].tolist() == [0]
    assert evidence(answer) == [
        {
            "kept": {"run_id": "run", "trace_id": "t001"},
            "jaccard_prompt": 1.0,
            "jaccard_supervised": round(111 / 121, 4),
            "threshold": 0.85,
        }
    ]


def test_same_answer_to_another_prompt_is_no_duplicate() -> None:
    assert near([prose(1), prose(2)], [prose(3)] * 2).empty


def test_another_answer_to_the_same_prompt_is_no_duplicate() -> None:
    assert near([prose(1)] * 2, [prose(2), prose(3)]).empty


def test_templated_prompts_do_not_collapse() -> None:
    """massive_function_calling lost 859,090 of 859,092 rows to its shared preamble (marin #6854)."""
    preamble = prose(1, 400)
    prompts = [f"{preamble} {prose(100 + i, 12)}" for i in range(50)]
    answers = [prose(200 + i, 30) for i in range(50)]
    assert near(prompts, answers).empty


def test_short_templated_rows_differ_by_one_word() -> None:
    assert near([f"What is the capital of {x}?" for x in ("Peru", "Chad")], ["Lima.", "N'Djamena."]).empty


def test_no_transitive_chain() -> None:
    """B is near A and C is near B but not near A: B goes, C stays."""
    a = prose(1, 200).split()
    b = a[:100] + ["x"] * 3 + a[103:]
    c = b[:40] + ["y"] * 10 + b[50:]
    answer = near(["p"] * 3, [" ".join(t) for t in (a, b, c)], threshold=0.9, reward=[0.9, 0.8, 0.7])
    assert answer["row"].tolist() == [1]


def test_row_dropped_earlier_stands_for_nobody() -> None:
    frame = frame_of(2)
    alive = np.array([False, True])
    spans = Spans.of_texts([prose(1)])
    assert near_duplicates(frame, alive, precedence(frame), spans, spans, 0.85).empty


def test_rows_of_one_rollout_are_never_compared() -> None:
    assert near([prose(1)] * 2, [prose(2)] * 2, trace_id=["t", "t"]).empty


def test_rows_without_any_text_are_equal() -> None:
    assert near(["", ""], ["", ""])["row"].tolist() == [1]


def test_threshold_is_met_exactly() -> None:
    """20 shared shingles of 25: 0.8."""
    shared = " ".join(f"w{i}" for i in range(24))
    texts = [shared + " a b c d e", shared]
    assert near(["p", "p"], texts, threshold=0.8)["row"].tolist() == [1]
    assert near(["p", "p"], texts, threshold=0.81).empty


def planted(rng: random.Random, target: float, length: int) -> tuple[str, str, float]:
    """Two texts whose shingles agree by about `target`, and by exactly how much."""
    left = [f"{w}{rng.randrange(1000)}" for w in words(rng, length)]
    edits = round(length * (1 - target) / (1 + target) / 5)
    right = list(left)
    for position in rng.sample(range(length // 5), edits):
        right[position * 5 + 2] = f"edit{rng.randrange(10**6)}"
    a, b = ({tuple(t[i : i + 5]) for i in range(length - 4)} for t in (left, right))
    return " ".join(left), " ".join(right), len(a & b) / len(a | b)


def test_recall_and_precision_on_planted_pairs() -> None:
    rng = random.Random(5)
    prompts, answers, truth = [], [], []
    for pair in range(1500):
        left, right, share = planted(rng, rng.uniform(0.75, 0.97), rng.randrange(150, 400))
        prompts += [f"question {pair} of this set please"] * 2
        answers += [left, right]
        truth.append(share >= 0.85)
    found = set((near(prompts, answers)["row"] // 2).tolist())
    wanted = {i for i, is_near in enumerate(truth) if is_near}
    assert found <= wanted
    assert len(found) >= 0.99 * len(wanted)


def brute_force(frame: pd.DataFrame, prompt: Spans, supervised: Spans, threshold: float) -> list[int]:
    def sets(spans: Spans) -> list[set[int]]:
        return [set(spans.values[a:b].tolist()) for a, b in zip(spans.offsets, spans.offsets[1:], strict=False)]

    def similar(left: set[int], right: set[int]) -> bool:
        return len(left & right) >= threshold * len(left | right)

    ps, ss = sets(prompt), sets(supervised)
    kept: list[int] = []
    for row in np.argsort(precedence(frame)).tolist():
        if not any(similar(ps[row], ps[k]) and similar(ss[row], ss[k]) for k in kept):
            kept.append(row)
    return sorted(set(range(len(frame))) - set(kept))


@given(st.integers(0, 10**6))
@settings(max_examples=25)
def test_equals_brute_force_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    bases = [words(rng, 60) for _ in range(4)]
    prompts, answers = [], []
    for _ in range(30):
        text = list(rng.choice(bases))
        for _ in range(rng.choice((0, 0, 1, 4))):
            text[rng.randrange(60)] = rng.choice(WORDS)
        prompts.append(f"please do task number {rng.randrange(3)} now")
        answers.append(" ".join(text))
    rewards = [rng.choice((0.5, 1.0)) for _ in prompts]
    frame = frame_of(30, reward=rewards)
    p, s = Spans.of_texts(prompts), Spans.of_texts(answers)
    expected = brute_force(frame, p, s, 0.85)
    alive = np.ones(30, dtype=bool)
    assert near_duplicates(frame, alive, precedence(frame), p, s, 0.85)["row"].tolist() == expected
    order = list(range(30))
    rng.shuffle(order)
    moved = frame.iloc[order].reset_index(drop=True)
    again = near_duplicates(
        moved,
        alive,
        precedence(moved),
        Spans.of_texts([prompts[i] for i in order]),
        Spans.of_texts([answers[i] for i in order]),
        0.85,
    )
    assert sorted(order[row] for row in again["row"]) == expected


def test_rows_of_the_corpus_are_dropped_and_named() -> None:
    frame = frame_of(4)
    alive = np.array([True, False, True, True])
    prompts, answers = [prose(1), prose(2), prose(3)], [prose(4), prose(5), prose(6)]
    corpus = corpus_of([prose(9), prose(2)], [prose(4), prose(5)], ["e003", "other"])
    exact = corpus_exact_duplicates(frame, alive, corpus)
    assert exact["row"].tolist() == [3]
    assert evidence(exact) == [{"corpus": "train.jsonl:1"}]
    found = corpus_near_duplicates(alive, Spans.of_texts(prompts), Spans.of_texts(answers), corpus, 0.85)
    assert found["row"].tolist() == [2]
    assert found["reason"].tolist() == ["corpus_near_duplicate"]
    assert evidence(found)[0]["corpus"] == "train.jsonl:2"


def test_corpus_is_not_compared_with_itself_and_batch_rows_not_with_each_other() -> None:
    spans = Spans.of_texts([prose(1)] * 2)
    alive = np.ones(2, dtype=bool)
    corpus = corpus_of([prose(2)] * 2, [prose(2)] * 2, ["x", "x"])
    assert corpus_near_duplicates(alive, spans, spans, corpus, 0.85).empty
    assert corpus_near_duplicates(alive, spans, spans, corpus_of([], [], []), 0.85).empty


@pytest.mark.parametrize("rows", [0, 1])
def test_nothing_to_compare(rows: int) -> None:
    assert near(["p"] * rows, ["a"] * rows).empty
