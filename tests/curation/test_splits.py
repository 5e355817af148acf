"""Splits: whole tasks, sticky, near their shares; what is asked outside train is not taught in it."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.curation.index_frames import everyone, fates, index_frame
from trace_flywheel.curation.sketch import Spans
from trace_flywheel.curation.splits import crossing, split_of
from trace_flywheel.settings import SettingsError, Splits, load_settings

HALF = Splits(eval=0.25, held_out=0.25)
TASKS = [f"task-{i}" for i in range(2_000)]
OF = {name: [t for t in TASKS if split_of(t, HALF, 42) == name] for name in ("train", "eval", "held_out")}


def test_shares_are_met_and_a_seed_is_another_draw():
    assert [len(tasks) / len(TASKS) for tasks in OF.values()] == pytest.approx([0.5, 0.25, 0.25], abs=0.04)
    assert any(split_of(t, HALF, 42) != split_of(t, HALF, 43) for t in TASKS)
    assert {split_of(t, Splits(), 42) for t in TASKS} == {"train"}


@pytest.mark.parametrize(("tasks", "least", "most"), [(50, 0.0, 0.18), (300, 0.06, 0.137), (1_000, 0.09, 0.11)])
def test_sources_differ_by_chance_and_by_no_more(tasks, least, most):
    """Twenty sources at a share of 0.1: not exact strata, and no source that the hash likes or dislikes."""
    shares = []
    for source in range(20):
        split = [split_of(f"source-{source}/task-{i}", Splits(eval=0.1), 42) for i in range(tasks)]
        shares.append(split.count("eval") / tasks)
    assert (min(shares), max(shares)) == (pytest.approx(least), pytest.approx(most, abs=1e-3))
    sigma = (0.1 * 0.9 / tasks) ** 0.5
    assert max(abs(share - 0.1) for share in shares) < 3 * sigma
    assert np.mean(shares) == pytest.approx(0.1, abs=3 * sigma / 20**0.5)


@given(st.text(min_size=1), st.floats(0, 0.4), st.floats(0, 0.4))
def test_a_growing_eval_share_only_takes_tasks_in(task, share, more):
    before, after = split_of(task, Splits(eval=share), 7), split_of(task, Splits(eval=min(0.9, share + more)), 7)
    assert not (before == "eval" and after == "train")


def test_shares_leave_something_to_train_on():
    with pytest.raises(SettingsError, match="leave nothing to train on"):
        load_settings(splits={"eval": 0.5, "held_out": 0.5})


def prompts(*texts):
    return Spans.of_texts(list(texts))


def test_a_train_row_near_an_eval_prompt_leaves_with_its_evidence():
    words = [f"w{i}" for i in range(60)]
    asked, near = " ".join(words), " ".join([*words[:59], "other"])
    frame = index_frame(
        {"trace_id": "a", "task_id": OF["eval"][0]},
        {"trace_id": "b", "task_id": OF["train"][0]},
        {"trace_id": "c", "task_id": OF["train"][1]},
        {"trace_id": "d", "task_id": OF["train"][2]},
    )
    spans = prompts(asked, near, "something else is asked in this one and nowhere else at all", asked)
    answer = crossing(frame, everyone(frame), spans, HALF, 42, 0.85)
    assert answer["row"].tolist() == [1, 3]
    told = json.loads(answer["evidence"].iat[0])
    assert told["near"] == {"run_id": "root/run-a", "trace_id": "a", "task_id": OF["eval"][0], "split": "eval"}
    assert 0.85 <= told["jaccard_prompt"] < 1
    gone = np.array([False, True, True, True])
    assert crossing(
        frame, gone, spans.take(np.flatnonzero(gone)), HALF, 42, 0.85
    ).empty  # an eval row that is out draws no one out
    assert crossing(frame, everyone(frame), spans, Splits(), 42, 0.85).empty


def test_train_rows_do_not_draw_each_other_out():
    frame = index_frame(*({"trace_id": f"t{i}", "task_id": OF["train"][i]} for i in range(3)))
    assert crossing(frame, everyone(frame), prompts("one two three", "one two three", "x"), HALF, 42, 0.85).empty


def test_a_component_that_touches_eval_leaves_train_whole():
    """Each is near the next one only; the last shares too little with the eval prompt to be near it."""
    words = [f"w{i}" for i in range(54)]
    ends = [("s", "e"), ("t", "e"), ("t", "f"), ("u", "f"), ("u", "g")]  # three words each
    chain = [" ".join([*(f"{a}{i}" for i in range(3)), *words, *(f"{b}{i}" for i in range(3))]) for a, b in ends]
    other = [f"z{i}" for i in range(40)]
    frame = index_frame(
        {"trace_id": "a", "task_id": OF["eval"][0]},
        *({"trace_id": f"b{k}", "task_id": OF["train"][k]} for k in range(4)),
        *({"trace_id": f"c{k}", "task_id": OF["train"][k]} for k in range(4, 6)),
    )
    spans = prompts(*chain, " ".join(other), " ".join(other))
    answer = crossing(frame, everyone(frame), spans, HALF, 42, 0.85)
    assert answer["row"].tolist() == [1, 2, 3, 4]  # c0 and c1 are near each other and touch nothing
    told = [json.loads(e) for e in answer["evidence"]]
    assert [e["near"]["trace_id"] for e in told] == ["a", "b0", "b1", "b2"]
    assert "touches" not in told[0]
    assert [(e["touches"]["trace_id"], e["touches"]["split"]) for e in told[1:]] == [("a", "eval")] * 3


def test_held_out_goes_before_eval_and_eval_before_train():
    """One prompt everywhere: what is held out stays. Another in eval and train: what is in eval stays."""
    of = [("a", "held_out"), ("b", "eval"), ("c", "train"), ("d", "eval"), ("e", "train")]
    frame = index_frame(*({"trace_id": name, "task_id": OF[split][i]} for i, (name, split) in enumerate(of)))
    one, other = " ".join(f"w{i}" for i in range(40)), " ".join(f"z{i}" for i in range(40))
    answer = crossing(frame, everyone(frame), prompts(one, one, one, other, other), HALF, 42, 0.85)
    assert fates(frame, answer) == {
        "b": "split/crosses_held_out",
        "c": "split/crosses_held_out",
        "e": "split/crosses_eval",
    }
    told = [json.loads(e)["near"]["split"] for e in answer["evidence"]]
    assert told == ["held_out", "held_out", "eval"]


def test_an_eval_row_that_leaves_takes_what_is_near_it_along():
    """held_out at one end of the chain, train at the other, near the eval row between them only."""
    words = [f"w{i}" for i in range(54)]
    ends = [("s", "e"), ("t", "e"), ("t", "f")]
    chain = [" ".join([*(f"{a}{i}" for i in range(3)), *words, *(f"{b}{i}" for i in range(3))]) for a, b in ends]
    frame = index_frame(
        *(
            {"trace_id": s, "task_id": OF[split][0]}
            for s, split in zip("abc", ("held_out", "eval", "train"), strict=True)
        )
    )
    answer = crossing(frame, everyone(frame), prompts(*chain), HALF, 42, 0.85)
    assert fates(frame, answer) == {"b": "split/crosses_held_out", "c": "split/crosses_held_out"}
    assert json.loads(answer["evidence"].iat[1])["touches"]["trace_id"] == "a"


def components(texts, threshold=0.85):
    """A number for each text, equal inside a component: exact Jaccard of word 5-shingles, plain Python."""
    sets = [{tuple(t.split()[i : i + 5]) for i in range(len(t.split()) - 4)} for t in texts]
    number = list(range(len(texts)))
    for i, a in enumerate(sets):
        for j, b in enumerate(sets[:i]):
            if len(a & b) / len(a | b) >= threshold:
                number = [number[j] if n == number[i] else n for n in number]
    return number


def prompt(base, edits):
    """60 words; `edits` of the eight places at the ends say another word: near (0.87 for one) or in a chain."""
    words = [f"{base}{i}" for i in range(60)]
    for place in edits:
        words[place if place < 4 else 51 + place] += "x"
    return " ".join(words)


asked = st.tuples(st.integers(0, 30), st.sampled_from("abc"), st.sets(st.integers(0, 7), max_size=3))


@given(st.lists(asked, min_size=1, max_size=12), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_no_component_spans_two_splits_whatever_the_order(rows, random):
    shuffled = list(enumerate(rows))
    random.shuffle(shuffled)
    left = []
    for order in (list(enumerate(rows)), shuffled):
        frame = index_frame(*({"trace_id": f"t{i:02}", "task_id": f"task-{t}"} for i, (t, _, _) in order))
        texts = [prompt(*rows[int(name[1:])][1:]) for name in frame["trace_id"]]
        answer = crossing(frame, everyone(frame), prompts(*texts), HALF, 42, 0.85)
        gone = set(answer["row"].tolist())
        stays = [i for i in range(len(texts)) if i not in gone]
        number = components(texts)
        split = [split_of(task, HALF, 42) for task in frame["task_id"]]
        found = {}
        for i in stays:
            found.setdefault(number[i], set()).add(split[i])
        assert all(len(splits) == 1 for splits in found.values())
        for i in gone:  # only for a row of a split before its own
            rank = {"held_out": 0, "eval": 1, "train": 2}
            assert min(rank[split[j]] for j in range(len(texts)) if number[j] == number[i]) < rank[split[i]]
        left.append(fates(frame, answer))
    assert left[0] == left[1]


@given(st.lists(st.text("abv-12", min_size=1, max_size=6), min_size=1, max_size=20), st.integers(1, 20))
def test_growth_moves_no_family(tasks, n):
    by_name = Splits(eval=0.3, held_out=0.3, family=r"^(.*)-v[0-9]+$")
    before = {task: split_of(task, by_name, 42) for task in tasks[:n]}
    after = {task: split_of(task, by_name, 42) for task in tasks}
    assert before.items() <= after.items()
    for task in tasks:
        assert split_of(f"{task}-v1", by_name, 42) == split_of(f"{task}-v2", by_name, 42)


def test_a_family_is_split_whole():
    by_name = Splits(eval=0.5, family=r"^(.*)-v[0-9]+$")
    for i in range(50):
        assert len({split_of(f"sort{i}-v{k}", by_name, 42) for k in range(5)}) == 1
    assert len({split_of(f"sort{i}-v1", by_name, 42) for i in range(50)}) == 2
    assert split_of("alone", by_name, 42) == split_of("alone", Splits(eval=0.5), 42)


@pytest.mark.parametrize(("pattern", "fault"), [("(", "no regular expression"), ("a", "one group"), ("(a)(b)", "2")])
def test_a_family_that_cannot_be_found_is_refused(pattern, fault):
    with pytest.raises(SettingsError, match=fault):
        load_settings(splits={"family": pattern})
