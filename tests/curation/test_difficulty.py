"""Pass rates of tasks: worked values, who counts, and that order does not."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.curation.index_frames import everyone, index_frame
from trace_flywheel.curation.difficulty import pass_at_k, task_difficulty


def attempts(task, verdicts, **common):
    return [
        {"trace_id": f"{task}{i}", "task_id": task, "verdict": v, "reward": 1.0 if v == "pass" else 0.0, **common}
        for i, v in enumerate(verdicts)
    ]


@pytest.mark.parametrize(
    ("n", "passes", "k", "rate"),
    [(4, 1, 1, 0.25), (4, 1, 2, 0.5), (4, 2, 2, 5 / 6), (4, 0, 4, 0.0), (4, 4, 1, 1.0), (3, 1, 4, None)],
)
def test_worked_values(n, passes, k, rate):
    assert pass_at_k(n, passes, k) == (None if rate is None else pytest.approx(rate))


@given(st.integers(1, 8), st.integers(0, 8), st.integers(1, 8))
def test_the_estimator_is_the_share_of_all_choices_of_k(n, passes, k):
    passes = min(passes, n)
    if k <= n:
        choices = [any(i < passes for i in some) for some in combinations(range(n), k)]
        assert pass_at_k(n, passes, k) == pytest.approx(sum(choices) / len(choices))


def test_a_task_is_counted_by_its_scored_members():
    rows = [
        *attempts("a", ["pass", "fail", "fail", "pass"], finished_at="2025-03-01T10:00:00Z"),
        *attempts("b", ["fail", "fail"]),
        {"trace_id": "u", "task_id": "a", "verdict": None, "reward": None},
        {"trace_id": "v", "task_id": "a", "verdict": "pass", "error_by": "verifier", "error_category": "x"},
        {"trace_id": "w", "task_id": "a", "finished_at": "2025-04-01T10:00:00Z"},
    ]
    frame = index_frame(*rows)
    table = task_difficulty(frame, (frame["trace_id"] != "w").to_numpy())
    assert table["task_id"].tolist() == ["a", "b"]
    assert (table["n"].tolist(), table["passes"].tolist()) == ([4, 2], [2, 0])
    assert table["pass_at_1"].tolist() == [0.5, 0.0]
    assert table["pass_at_2"].tolist() == [pytest.approx(5 / 6), 0.0]
    assert np.isnan(table["pass_at_4"].iat[1])
    assert table["zero_signal"].tolist() == [False, True]
    assert table["last_seen"].iat[0] == "2025-03-01T10:00:00Z"
    assert pd.isna(table["last_seen"].iat[1])


def test_graders_never_meet():
    frame = index_frame(*attempts("a", ["pass", "fail"]), *attempts("a", ["pass"], grader="other", run_id="root/b"))
    table = task_difficulty(frame, everyone(frame))
    assert dict(zip(table["grader"], table["n"], strict=True)) == {"exact_match": 2, "other": 1}


def test_no_attempt_is_an_empty_table():
    frame = index_frame({"trace_id": "t"})[:0]
    assert list(task_difficulty(frame, everyone(frame)).columns)[:1] == ["task_id"]
