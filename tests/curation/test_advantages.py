"""Group advantages: worked values, whole-group rules, comparable rewards only."""

import json
import math
import time
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.curation.index_frames import everyone, fates, index_frame
from trace_flywheel.curation.advantages import group_table, stale_policies
from trace_flywheel.curation.baselines import advantages, mean_and_std
from trace_flywheel.records.normalisation import Normalisation
from trace_flywheel.settings import Groups

NOTHING_LOST = pd.DataFrame({"task_id": [], "agent": [], "model": [], "job": []}, dtype=object)
BY_TASK = Groups(by=("task",))
NAMES = get_args(Normalisation)
finite = st.floats(-1e6, 1e6, allow_nan=False, allow_infinity=False)


def table(*rows, groups=BY_TASK, lost=NOTHING_LOST):
    frame = index_frame(*rows)
    answer = group_table(frame, everyone(frame), groups, lost)
    return answer.set_index(frame["trace_id"])


def attempts(rewards, **common):
    return [{"trace_id": f"t{i}", "reward": r, **common} for i, r in enumerate(rewards)]


@pytest.mark.parametrize(
    ("rewards", "normalisation", "expected"),
    [
        ([0, 1, 0], "grpo", [-0.5772502865071344, 1.154500573014269, -0.5772502865071344]),
        ([0, 1], "grpo", [-0.7070067953266834, 0.7070067953266834]),
        ([0, 1], "loo", [-1.0, 1.0]),
        ([0, 1, 0], "loo", [-0.5, 1.0, -0.5]),
        ([0, 0.25, 0.5, 1], "loo", [-0.5833333333333334, -0.25, 0.08333333333333331, 0.75]),
        (
            [0.9, 0.7, 0.4, 0.0],
            "grpo",
            [1.0212470339483486, 0.5106235169741741, -0.25531175848708704, -1.2765587924354356],
        ),
        ([0.5] * 4, "grpo", [0.0] * 4),
        ([0.1] * 3, "loo", [0.0] * 3),
        ([0, 1, 0, 1], "dr-grpo", [-0.5, 0.5, -0.5, 0.5]),
        ([0, 0.25, 0.5, 1], "dr-grpo", [-0.4375, -0.1875, 0.0625, 0.5625]),
        ([0, 1, 0, 0], "max-rl", [-1.0, 3.0, -1.0, -1.0]),
        ([0, 0.25, 0.5, 1], "max-rl", [-1.0, -0.42857142857142855, 0.14285714285714285, 1.2857142857142858]),
        ([-1, 1], "max-rl", [0.0, 0.0]),
        ([-2, -1], "max-rl", [0.0, 0.0]),
        ([0.0] * 3, "max-rl", [0.0] * 3),
        ([0.7] * 3, "dr-grpo", [0.0] * 3),
    ],
)
def test_worked_values(rewards, normalisation, expected):
    assert advantages(rewards, normalisation) == pytest.approx(expected, abs=1e-12)


def test_one_reward_or_a_non_finite_one_is_refused():
    with pytest.raises(ValueError, match="two rewards"):
        advantages([1.0], "grpo")
    with pytest.raises(ValueError, match="finite"):
        advantages([1.0, math.nan], "loo")


@given(
    st.lists(finite, min_size=2, max_size=12),
    st.randoms(use_true_random=False),
    st.sampled_from(get_args(Normalisation)),
)
def test_order_of_members_never_matters(rewards, random, normalisation):
    by_reward = dict(zip(rewards, advantages(rewards, normalisation), strict=True))
    shuffled = list(rewards)
    random.shuffle(shuffled)
    assert dict(zip(shuffled, advantages(shuffled, normalisation), strict=True)) == by_reward


@pytest.mark.parametrize(("rewards", "flag"), [([0, 0], True), ([-1, 1], True), ([0, 1], False)])
def test_max_rl_needs_a_mean_above_0(rewards, flag):
    got = table(*attempts(rewards), groups=Groups(by=("task",), normalisation="max-rl"))
    assert got["non_positive_mean"].tolist() == [flag] * 2
    assert got["advantage"].tolist() == ([0.0, 0.0] if flag else [-1.0, 1.0])
    assert not table(*attempts(rewards))["non_positive_mean"].any()


def test_float_noise_is_not_blown_up():
    assert max(map(abs, advantages([0.3, 0.30000001, 0.3], "grpo"))) < 1e-3


def test_std_of_one_is_none():
    assert mean_and_std([]) == (None, None)
    assert mean_and_std([0.5]) == (0.5, None)


def test_a_group_of_three():
    got = table(*attempts([0, 1, 0], agent="opencode"), groups=Groups(by=("task", "agent", "model")))
    assert got["advantage"].tolist() == pytest.approx([-0.57725028650, 1.15450057301, -0.57725028650])
    assert got["group_id"].tolist() == ["task=task|agent=opencode|model=null"] * 3
    assert got["reason"].tolist() == [None] * 3
    assert not got["zero_spread"].any()
    assert (got["group_size"].tolist(), got["scored"].tolist()) == ([3] * 3, [3] * 3)


def test_equal_rewards_give_zero_and_a_flag():
    got = table(*attempts([0.5, 0.5, 0.5]))
    assert got["advantage"].tolist() == [0.0] * 3
    assert got["zero_spread"].all()
    assert got["reason"].isna().all()


@pytest.mark.parametrize(
    "member",
    [
        {"reward": None},
        {"reward": math.nan},
        {"reward": 0.0, "error_by": "infrastructure"},
        {"reward": 0.0, "error_by": "verifier"},
    ],
)
def test_an_unscored_member_withholds_the_group(member):
    got = table(*attempts([0, 1]), {"trace_id": "x", **member})
    assert got["reason"].tolist() == ["withheld_unscored"] * 3
    assert got["advantage"].isna().all()


def test_an_unscored_member_is_left_out_when_set():
    got = table(*attempts([0, 1]), {"trace_id": "x", "reward": None}, groups=Groups(by=("task",), unscored="exclude"))
    assert got["advantage"].tolist()[:2] == pytest.approx([-0.70700679, 0.70700679])
    assert got["reason"].tolist() == [None, None, "withheld_unscored"]
    assert got["scored"].tolist()[:2] == [2, 2]


def test_the_models_own_failure_keeps_its_reward():
    got = table(*attempts([1, 0], error_by="agent", error_category="timeout"))
    assert got["advantage"].tolist() == pytest.approx([0.70700679, -0.70700679])


def test_a_member_that_never_reached_the_model_withholds_the_group():
    got = table(*attempts([0, 1]), {"trace_id": "x", "reward": 0.0, "never_called": True})
    assert got["reason"].tolist() == ["withheld_never_called"] * 3


def test_a_single_member_has_no_baseline():
    assert table(*attempts([1]))["reason"].tolist() == ["single_scored_rollout"]


@pytest.mark.parametrize(
    ("lost", "withheld"),
    [
        ({"task_id": "task", "agent": "opencode", "model": "m"}, True),
        ({"task_id": "task", "agent": None, "model": None}, True),
        ({"task_id": "task", "agent": "codex", "model": "m"}, False),
        ({"task_id": "other", "agent": "opencode", "model": "m"}, False),
        ({"task_id": None, "agent": "opencode", "model": "m"}, False),
    ],
)
def test_a_lost_member_withholds_the_groups_it_may_belong_to(lost, withheld):
    lost_frame = pd.DataFrame([{**lost, "job": None}], dtype=object)
    got = table(*attempts([0, 1], agent="opencode", model="m", task_digest="d"), groups=Groups(), lost=lost_frame)
    assert got["reason"].tolist() == (["withheld_unreadable"] * 2 if withheld else [None] * 2)


def test_rewards_of_two_graders_never_meet():
    got = table(
        *attempts([0, 1], grader="a"),
        {"trace_id": "u0", "grader": "b", "reward": 90.0},
        {"trace_id": "u1", "grader": "b", "grader_version": "2", "reward": 100.0},
    )
    assert got["advantage"].tolist()[:2] == pytest.approx([-0.70700679, 0.70700679])
    assert got["reason"].tolist()[2:] == ["mixed_graders", "mixed_graders"]


def test_a_version_of_none_is_a_value():
    got = table(*attempts([0, 1], grader_version=None))
    assert got["reason"].isna().all()


def test_copies_and_retries_are_no_members():
    frame = index_frame(*attempts([0, 1]), {"trace_id": "x", "reward": 1.0})
    got = group_table(frame, np.array([True, True, False]), BY_TASK, NOTHING_LOST)
    assert got["advantage"].tolist()[:2] == pytest.approx([-0.70700679, 0.70700679])
    assert math.isnan(got["advantage"].iat[2])
    assert got["group_size"].tolist() == [2, 2, 2]


def test_an_empty_frame_gives_an_empty_table():
    frame = index_frame(*attempts([0]))[:0]
    assert len(group_table(frame, everyone(frame), BY_TASK, NOTHING_LOST)) == 0


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([0.0, 0.5, 1.0, None])), min_size=1, max_size=12))
def test_the_table_says_what_the_formula_says(members):
    rows = [{"trace_id": f"t{i:02}", "task_id": task, "reward": r} for i, (task, r) in enumerate(members)]
    got = table(*rows)
    for task in "ab":
        rewards = [r for t, r in members if t == task]
        of_task = got[[t == task for t, _ in members]]["advantage"].tolist()
        if None in rewards or len(rewards) < 2:
            assert all(map(math.isnan, of_task))
        else:
            assert of_task == advantages(rewards, "grpo")


def test_a_table_is_plain_columns():
    record = table(*attempts([0, 1])).reset_index().to_dict("records")[0]
    assert json.loads(json.dumps(record))["formula"].startswith("advantage = (reward - mean)")


@pytest.mark.slow
def test_a_million_rollouts_take_seconds():
    n = 1_000_000
    frame = index_frame({"trace_id": "t"})
    frame = frame.loc[frame.index.repeat(n)].reset_index(drop=True)
    frame["task_id"] = pd.Series([f"task-{i // 8}" for i in range(n)])
    frame["reward"] = np.random.default_rng(0).random(n)
    start = time.process_time()
    got = group_table(frame, everyone(frame), Groups(), NOTHING_LOST)
    assert time.process_time() - start < 20
    assert got["advantage"].notna().all()


def test_policies_that_are_too_old_are_stale():
    frame = index_frame(
        {"trace_id": "new", "policy_version": "2", "finished_at": "2025-03-11T00:00:00Z"},
        {"trace_id": "old", "policy_version": "1", "finished_at": "2025-03-01T00:00:00Z"},
        {"trace_id": "older", "policy_version": "1", "finished_at": "2025-02-01T00:00:00Z"},
        {"trace_id": "none", "finished_at": "2025-03-05T00:00:00Z"},
        {"trace_id": "timeless", "policy_version": "0"},
    )

    def stale(days):
        return fates(frame, stale_policies(frame, everyone(frame), days))

    assert stale(None) == {}
    assert stale(10) == {}
    assert stale(9.5) == {"old": "groups/stale_policy", "older": "groups/stale_policy"}
    assert set(stale(5)) == {"old", "older", "none"}
    found = stale_policies(frame, everyone(frame), 9.5)["evidence"].tolist()
    assert json.loads(found[0]) == {"policy_version": "1", "age_days": 10.0, "max_policy_age": 9.5}
