"""Duplicates by meaning: inside a task, against kept rows, both texts, with evidence."""

import json
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.curation.index_frames import everyone, fates, index_frame
from trace_flywheel.curation.meaning import same_meaning


def turned(degrees):
    return np.array([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))], dtype=np.float32)


def judged(frame, angles, threshold, rank=None, alive=None):
    """`angles`: of prompt and supervised text by trace id."""
    asked = []

    def vectors(rows):
        names = frame["trace_id"].iloc[rows].tolist()
        asked.extend(names)
        return [tuple(map(turned, angles[name])) for name in names]

    order = np.arange(len(frame)) if rank is None else np.array(rank)
    live = everyone(frame) if alive is None else alive
    return same_meaning(frame, live, order, vectors, threshold, "m@1:abc"), asked


def test_both_texts_must_say_the_same():
    frame = index_frame(*({"trace_id": name} for name in "abcd"))
    angles = {"a": (0, 0), "b": (10, 10), "c": (0, 60), "d": (60, 0)}
    answer, _ = judged(frame, angles, 0.98)
    assert fates(frame, answer) == {"b": "near_duplicate/same_meaning"}
    assert json.loads(answer["evidence"].iat[0]) == {
        "kept": {"run_id": "root/run-a", "trace_id": "a"},
        "cosine_prompt": 0.9848,
        "cosine_supervised": 0.9848,
        "threshold": 0.98,
        "model": "m@1:abc",
    }


def test_a_row_is_held_against_kept_rows_of_its_task_only():
    """b is near a, c near b and not near a: b goes and c stays. x means what a means in another task."""
    frame = index_frame(*({"trace_id": name} for name in "abc"), {"trace_id": "x", "task_id": "other"})
    angles = {"a": (0, 0), "b": (10, 10), "c": (20, 20), "x": (0, 0)}
    answer, asked = judged(frame, angles, 0.98)
    assert fates(frame, answer) == {"b": "near_duplicate/same_meaning"}
    assert asked == ["a", "b", "c"]  # a row that is alone in its task is never encoded
    answer, _ = judged(frame, angles, 0.98, rank=[2, 0, 1, 3])
    assert fates(frame, answer) == dict.fromkeys("ac", "near_duplicate/same_meaning")
    gone = np.array([False, True, True, True])
    assert fates(frame, judged(frame, angles, 0.98, alive=gone)[0]) == {"c": "near_duplicate/same_meaning"}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=12), st.randoms(use_true_random=False))
def test_order_does_not_matter_and_what_goes_is_near_what_stays(rows, random):
    named = [{"trace_id": f"t{i:02}", "task_id": task} for i, (task, _) in enumerate(rows)]
    angles = {row["trace_id"]: (0, angle) for row, (_, angle) in zip(named, rows, strict=True)}
    frame = index_frame(*named) if named else index_frame({"trace_id": "t"})[:0]
    answer, _ = judged(frame, angles, 0.99)
    gone = fates(frame, answer)
    random.shuffle(named)
    again = index_frame(*named) if named else frame
    assert fates(again, judged(again, angles, 0.99)[0]) == gone
    for evidence, row in zip(answer["evidence"], answer["row"], strict=True):
        kept = json.loads(evidence)["kept"]["trace_id"]
        assert kept not in gone
        assert frame["task_id"].iat[row] == frame.set_index("trace_id")["task_id"][kept]
