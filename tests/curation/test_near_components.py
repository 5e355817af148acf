import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_flywheel.curation.dedup import matches
from trace_flywheel.curation.near_components import keys_of, packed, shared_keys, tied
from trace_flywheel.curation.near_kernel import NONE
from trace_flywheel.curation.sketch import Spans

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "l")]


def pairs(edges: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int]]:
    return sorted(zip(edges[0].tolist(), edges[1].tolist(), strict=True))


def test_rows_of_one_key_are_a_chain() -> None:
    keys = np.array([7, 3, 7, 9, 7, 3], dtype=np.uint64)
    assert pairs(shared_keys(keys)) == [(0, 2), (1, 5), (2, 4)]


def test_a_key_ties_inside_a_component_only() -> None:
    keys = np.array([7, 7, 7, 7], dtype=np.uint64)
    assert pairs(shared_keys(keys, np.array([0, 1, 0, 1]))) == [(0, 2), (1, 3)]


def test_bands_tie_through_each_other() -> None:
    bands = [(np.array([0]), np.array([1])), (np.array([1, 3]), np.array([2, 4]))]
    labels = tied(6, bands)
    assert [labels[i] == labels[0] for i in range(6)] == [True, True, True, False, False, False]
    assert labels[3] == labels[4] != labels[5]


def test_batches_hold_whole_components_and_no_row_that_is_alone() -> None:
    labels = np.array([0, 1, 0, 2, 1, 3, 2, 2, 4, 4])
    assert [batch.tolist() for batch in packed(labels, 5)] == [[0, 1, 2, 4], [3, 6, 7, 8, 9]]
    assert [batch.tolist() for batch in packed(labels, 2)] == [[0, 2], [1, 4], [3, 6, 7], [8, 9]]
    assert packed(np.zeros(0, dtype=np.int64), 5) == []


def agent_work(seed: int, rows: int = 80) -> tuple[Spans, Spans]:
    """Prompts of few tasks, some under one template; answers with near repeats, some of them boilerplate."""
    rng = random.Random(seed)
    template = " ".join(rng.choices(WORDS, k=40))
    tasks = [f"{template if n % 2 else ''} {' '.join(rng.choices(WORDS, k=30))}" for n in range(6)]
    answers = [rng.choices(WORDS, k=60) for _ in range(8)]
    prompts, said = [], []
    for _ in range(rows):
        text = list(rng.choice(answers))
        for _ in range(rng.choice((0, 0, 1, 5))):
            text[rng.randrange(60)] = rng.choice(WORDS)
        prompt = rng.choice(tasks).split()
        if rng.random() < 0.3:
            prompt[rng.randrange(len(prompt))] = rng.choice(WORDS)
        prompts.append(" ".join(prompt))
        said.append("It is done." if rng.random() < 0.2 else " ".join(text))
    return Spans.of_texts(prompts), Spans.of_texts(said)


def components(prompt: Spans, supervised: Spans) -> np.ndarray:
    within = tied(len(prompt), [shared_keys(keys) for keys in keys_of(prompt)])
    return tied(len(prompt), [shared_keys(keys, within) for keys in keys_of(supervised)])


@given(st.integers(0, 10**6), st.sampled_from([2, 10, 1000]))
@settings(max_examples=30)
def test_components_by_themselves_give_what_all_rows_give(seed: int, most: int) -> None:
    prompt, supervised = agent_work(seed)
    rng = np.random.default_rng(seed)
    owner, rank = rng.integers(0, 70, len(prompt)), rng.permutation(len(prompt))
    match, scores = matches(owner, rank, prompt, supervised, 0.85)
    apart, measured = np.full(len(prompt), NONE), np.zeros((len(prompt), 2))
    for batch in packed(components(prompt, supervised), most):
        found, measured[batch] = matches(owner[batch], rank[batch], prompt.take(batch), supervised.take(batch), 0.85)
        apart[batch] = np.where(found == NONE, NONE, batch[found])
    assert apart.tolist() == match.tolist()
    assert measured.tolist() == scores.tolist()
    assert (match != NONE).any()


def test_a_template_in_all_prompts_ties_no_different_answers() -> None:
    """What makes one component of everything is both: one template and boilerplate answers."""
    rng = random.Random(1)
    template = " ".join(rng.choices(WORDS, k=300))
    prompt = Spans.of_texts([f"{template} task {n}" for n in range(100)])
    supervised = Spans.of_texts([" ".join(rng.choices(WORDS, k=60)) for _ in range(100)])
    assert packed(components(prompt, supervised), 1000) == []
    everything = packed(components(prompt, Spans.of_texts(["It is done."] * 100)), 10)
    assert [len(batch) for batch in everything] == [100]


def test_the_best_near_row_is_named() -> None:
    """Row 2 is near both kept rows; the better one stands for it, whatever buckets it was found through."""
    base = [f"w{i}" for i in range(200)]
    one, two, three = list(base), list(base), list(base)
    one[20:26], two[180:186] = ["x"] * 6, ["y"] * 6
    spans = Spans.of_texts([" ".join(text) for text in (one, two, three)])
    prompt = Spans.of_texts(["p"] * 3)
    for rank, best in (((0, 1, 2), 0), ((1, 0, 2), 1)):
        match, _ = matches(np.arange(3), np.array(rank), prompt, spans, 0.9)
        assert match.tolist() == [NONE, NONE, best]
