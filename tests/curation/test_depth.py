import json
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_flywheel.curation.depth import (
    LABELS,
    DepthModel,
    Labelled,
    cross_validate,
    evaluate,
    read_labelled,
    seed_set,
    short_label,
    train,
    training_set_hash,
)
from trace_flywheel.curation.depth_asked import HEAD, asked, plain, story
from trace_flywheel.curation.depth_cues import NAMES, TOLD
from trace_flywheel.curation.depth_features import COLUMNS, FEATURES_VERSION, features
from trace_flywheel.records.canonical import content_id

CHALLENGE = Path(__file__).with_name("depth_challenge.jsonl")
CHALLENGES = {
    "depth_challenge": 0.93,
    "depth_challenge_styles": 0.9,
    "depth_challenge_fresh": 0.92,
    "depth_challenge_natural": 0.88,
    "depth_challenge_blind": 0.75,
    "depth_challenge_voices": 0.87,
}
"""Least accuracy on each set that is never trained on."""


@pytest.fixture(scope="module")
def model() -> DepthModel:
    return train(seed_set())


def fixture_rows(path: Path) -> list[Labelled]:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [Labelled(row["prompt"], short_label(row["reasoning_depth"])) for row in rows]


def test_seed_set_is_large_balanced_and_distinct() -> None:
    counts = Counter(row.label for row in seed_set())
    assert set(counts) == set(LABELS)
    assert sum(counts.values()) >= 400
    assert min(counts.values()) > 0.7 * max(counts.values())
    assert len({row.prompt for row in seed_set()}) == len(seed_set())


def challenge(name: str) -> tuple[Labelled, ...]:
    return read_labelled(CHALLENGE.with_name(f"{name}.jsonl").read_bytes())


def grams(text: str) -> set[str]:
    folded = " ".join(text.lower().split())
    return {folded[i : i + 4] for i in range(max(1, len(folded) - 3))}


@pytest.mark.parametrize("name", CHALLENGES)
def test_challenge_sets_stand_apart_from_the_seed_set(name: str) -> None:
    """Not even a paraphrase: no two prompts share two thirds of their character 4-grams."""
    seen = [grams(row.prompt) for row in seed_set()]
    for row in challenge(name):
        own = grams(row.prompt)
        nearest = max(len(own & other) / len(own | other) for other in seen)
        assert nearest < 0.67, row.prompt


@pytest.mark.parametrize("name", CHALLENGES)
def test_natural_prompts_that_it_never_saw(model: DepthModel, name: str) -> None:
    assert evaluate(model, challenge(name)).accuracy >= CHALLENGES[name]


def test_cross_validated_on_the_seed_set() -> None:
    report = cross_validate(seed_set())
    assert report.accuracy >= 0.85
    assert report.macro_f1 >= 0.85
    assert sum(sum(row.values()) for row in report.confusion.values()) == len(seed_set())


@pytest.mark.corpus
def test_upstream_held_out_set(model: DepthModel, shared_dir: Path) -> None:
    held_out = fixture_rows(shared_dir / "atraj" / "fixtures" / "classifier" / "heldout.jsonl")
    assert evaluate(model, held_out).accuracy >= 0.97


@pytest.mark.corpus
def test_prompts_of_the_mix_case(model: DepthModel, shared_dir: Path) -> None:
    case = shared_dir / "conformance" / "graded-cases" / "mix-shrink"
    expected = json.loads((case / "expected.json").read_text())["mix"]["labels"]
    rows = json.loads((case / "input" / "runs" / "run-a" / "results.json").read_text())["results"]
    labels, _ = model.label([row["messages"][0]["content"] for row in rows])
    assert {row["trace_id"]: label for row, label in zip(rows, labels, strict=True)} == expected


@pytest.mark.parametrize(
    ("prompt", "label"),
    [
        ("Which is the largest of all deserts?", "single"),
        ("Is Turin larger than Genoa?", "comparison"),
        ("Who is the husband of the woman who wrote Frankenstein?", "multi"),
        ("Find the failing test, work out why it fails and fix it.", "multi"),
        ("Write a function that reverses a linked list.", "other"),
        ("thank you!", "other"),
        ("PLEASE tell me wich planet is teh biggest", "single"),
    ],
)
def test_guide(model: DepthModel, prompt: str, label: str) -> None:
    assert model.label([prompt])[0] == [label]


def test_order_of_the_training_set_does_not_matter(model: DepthModel, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    model.save(tmp_path / "a")
    train(reversed(seed_set())).save(tmp_path / "b")
    for name in ("depth.npz", "depth.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_saved_model_labels_as_before(model: DepthModel, tmp_path: Path) -> None:
    model.save(tmp_path)
    again = DepthModel.load(tmp_path)
    prompts = [row.prompt for row in read_labelled(CHALLENGE.read_bytes())]
    assert again.label(prompts)[0] == model.label(prompts)[0]
    assert np.array_equal(again.label(prompts)[1], model.label(prompts)[1])
    info = json.loads((tmp_path / "depth.json").read_text())
    assert info["labels"] == list(LABELS)
    assert info["training_set"] == training_set_hash(seed_set())
    assert set(info["versions"]) == {"numpy", "scikit-learn", "scipy"}


def test_model_for_other_features_is_refused(model: DepthModel, tmp_path: Path) -> None:
    model.save(tmp_path)
    path = tmp_path / "depth.json"
    path.write_text(path.read_text().replace(f'"features": {FEATURES_VERSION}', '"features": 0'))
    with pytest.raises(ValueError, match=r"features 0.*train it again"):
        DepthModel.load(tmp_path)


def test_training_set_hash_follows_prompts_and_labels() -> None:
    rows = seed_set()
    changed = (Labelled(rows[0].prompt, "other"), *rows[1:])
    assert training_set_hash(rows) == training_set_hash(rows[::-1]) != training_set_hash(changed)
    for labelled in (rows, rows[::-1], changed):  # again, and of rows that are given once
        wanted = content_id(sorted([row.prompt, row.label] for row in labelled))
        assert [training_set_hash(labelled), training_set_hash(iter(labelled))] == [wanted] * 2


def test_prompt_with_two_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="two labels, other and single, for the prompt"):
        train([*seed_set(), Labelled("Where is it?", "single"), Labelled("where  IS it?", "other")])


def test_class_without_prompts_is_refused() -> None:
    with pytest.raises(ValueError, match="no prompt is labelled comparison"):
        train(row for row in seed_set() if row.label != "comparison")


@pytest.mark.parametrize(
    ("line", "fault"),
    [(b'{"prompt": "x"}', "label"), (b"{", "line 2"), (b'{"prompt": "x", "label": "deep"}', "no depth label")],
)
def test_bad_line_of_labelled_data_is_named(line: bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_labelled(b'{"prompt": "a", "label": "single-hop"}\n' + line)


def test_no_prompts_no_labels(model: DepthModel) -> None:
    labels, confidence = model.label([])
    assert (labels, confidence.tolist()) == ([], [])


@given(st.lists(st.text(max_size=200), max_size=5))
@settings(max_examples=50)
def test_any_text_has_a_row_and_a_label(model: DepthModel, prompts: list[str]) -> None:
    assert features(prompts).csr().shape == (len(prompts), COLUMNS)
    labels, confidence = model.label(prompts)
    assert set(labels) <= set(LABELS)
    assert all(0.25 <= value <= 1 for value in confidence)
    assert [model.label([p])[0][0] for p in prompts] == labels  # a prompt's label does not depend on its neighbours


def test_what_is_asked_is_told_from_what_it_is_about() -> None:
    passage = "Anna ran the club. Jim kept the books and then left for Rome, where he met Li. " * 3
    assert asked(f"Context: {passage}\n\nQuestion: who kept the books?") == "Question: who kept the books?"
    assert asked(f"Translate this to German: {passage}") == "Translate this to German:"
    assert asked(f'From the text below, who left? "{passage}"') == 'From the text below, who left?  "…" '
    assert "def" not in asked("What does it print?\n```python\ndef f(): pass\n```")
    assert len(asked("word " * 5000)) <= HEAD + 1


def test_of_several_paragraphs_what_asks_is_read_and_not_the_greetings() -> None:
    letter = "Dear team,\n\nwe moved house last week and all is well.\n\nI only need {}.\n\nKind regards,\nAnn Lee"
    assert asked(letter.format("the opening hours")) == "I only need the opening hours."
    assert asked("It was a long day.\n\nWhat is the capital of Peru?\n\nThanks, Bo") == "What is the capital of Peru?"
    assert asked("The server is down.\nFind the cause. Restart it.\nAnn") == "Find the cause."
    assert asked("One day.\nThen another.\nSo it went.") == "One day.\nSo it went."


def test_pasted_lines_are_not_what_asks() -> None:
    log = "2024-03-02 11:04:18 ERROR [pool-2] could not acquire lock\n  at a.b.C(C.java:7)\n"
    assert asked(f"{log}why does it hang?") == "why does it hang?"
    assert asked(f"{log}tell me which pool that was") == "tell me which pool that was"
    assert "ERROR" in asked(log), "a log alone is read as it is"
    assert asked("$ df -h\nwhich disk is full") == "`…`\nwhich disk is full"
    assert asked("We met in May.\nIt rained, sadly.") == "We met in May.\nIt rained, sadly."


def test_of_a_long_story_its_questions_are_read_else_its_end() -> None:
    story = "We went to the lake, all of us, and the dog too. " * 5
    assert asked(f"{story}Which lake is the largest?") == "Which lake is the largest?"
    assert asked(f"{story}I wonder where he is now.") == "I wonder where he is now."
    assert (
        asked(f"{story}And then it rained.") == "We went to the lake, all of us, and the dog too. And then it rained."
    )
    assert len(asked("word " * 100)) == 260


def test_rivals_that_a_story_names_before_the_question_are_seen() -> None:
    told = "My wife wants a Magnolia or a Dogwood, the garden is small and shady, and it is windy from October to May. "
    asks = "The man in the shop has both and he will keep them for us till Friday. What do you say?"
    assert asked(told + asks) == "What do you say?"
    assert story(told + asks, "What do you say?") == told + asks
    assert story("What do you say?", "What do you say?") == ""
    assert story("What is it? " * 40, "What is it? " * 40) == "", "most of it asks"
    row = features([told + asks]).csr().toarray()[0]
    assert row[NAMES.index("rivals")] == 0
    assert row[len(NAMES) + TOLD.index("rivals")] == pytest.approx(np.log(2))
    assert features(["A or B?"]).csr()[:, len(NAMES) : len(NAMES) + len(TOLD)].nnz == 0


def test_a_word_in_quotes_does_not_hide_what_follows_it() -> None:
    assert plain('It says "done" and the file is empty. Where do the rows get lost?') == (
        'It says "done" and the file is empty. Where do the rows get lost?'
    )
    assert plain('Shorten "we are pleased to inform you today" a bit') == 'Shorten  "…"  a bit'
    assert plain('a 27" screen or a 34" one') == 'a 27" screen or a 34" one'


def test_a_story_without_a_question_is_read_where_it_wishes() -> None:
    told = "It rained all week and the roof of the barn came down on the old tractor, which nobody had insured. " * 2
    wish = "I can't decide if we mend it."
    assert asked(f"{told}{wish} Anyway. That was our week.") == wish


def test_no_alternative_is_meant_by_or_not() -> None:
    either, vague = (features([text]).csr().toarray()[0] for text in ("is it tea or coffee", "is it open or not"))
    assert (either[NAMES.index("or")] > 0, vague[NAMES.index("or")]) == (True, 0)


def test_orders_and_questions_are_counted_by_clause() -> None:
    row = features(["Open the log, find the cause and fix it. What was it, and who wrote it?"]).csr().toarray()[0]
    for name, n in (("orders", 3), ("asking_clauses", 2), ("several_orders", 1), ("several_asks", 1)):
        assert row[NAMES.index(name)] == pytest.approx(np.log1p(n)), name


@pytest.mark.slow
def test_rate(model: DepthModel) -> None:
    """5,000 prompts of 300 characters a second on one core; less than half of that whatever else the machine does."""
    prompts = [(row.prompt * 9)[:300] for row in seed_set()]
    start = time.process_time()
    model.label(prompts)
    assert len(prompts) / (time.process_time() - start) > 2000
