"""Advantages of one conversion: BenchFlow's blocks."""

import pytest

from trace_flywheel.curation.group_signals import Member, group_signals

KEY = {"task": "half-life", "agent": "opencode", "model": "deepseek/deepseek-v4-flash", "job": "j"}
BY = ("task", "agent", "model")


def members(*rewards, **fields):
    return [Member(KEY, reward, **fields) for reward in rewards]


def test_the_block_of_a_group():
    signals, blocks = group_signals(members(0.0, 0.25, 0.5, 1.0), BY, "grpo")
    assert blocks == [
        {
            "id": "task=half-life|agent=opencode|model=deepseek/deepseek-v4-flash",
            "by": ["task", "agent", "model"],
            "key": {"task": "half-life", "agent": "opencode", "model": "deepseek/deepseek-v4-flash"},
            "normalisation": "grpo",
            "formula": "advantage = (reward - mean) / (std + eps); "
            "mean and sample std (ddof 1) over the scored rollouts of the group",
            "rollouts": 4,
            "scored": 4,
            "mean": 0.4375,
            "std": pytest.approx(0.42695628191498325, abs=1e-15),
            "std_ddof": 1,
            "eps": 0.0001,
        }
    ]
    assert [s.advantage for s in signals] == pytest.approx(
        [-1.0244551327946414, -0.43905219976913207, 0.14635073325637735, 1.3171565993073961], abs=1e-12
    )
    assert all(s.group == blocks[0] for s in signals)


def test_leave_one_out():
    signals, blocks = group_signals(members(0.0, 1.0), BY, "loo")
    assert [s.advantage for s in signals] == [-1.0, 1.0]
    assert blocks[0]["formula"] == "advantage = reward - mean(rewards of the other scored rollouts of the group)"


def test_max_rl_flags_a_group_without_a_mean_to_divide_by():
    signals, (block,) = group_signals(members(0.0, 0.0), BY, "max-rl")
    assert [s.advantage for s in signals] == [0.0, 0.0]
    assert block["non_positive_mean"] is True
    assert signals[0].group["non_positive_mean"] is True
    signals, (block,) = group_signals(members(0.0, 0.5), BY, "max-rl")
    assert [s.advantage for s in signals] == [-1.0, 1.0]
    assert "non_positive_mean" not in block
    assert "non_positive_mean" not in group_signals(members(0.0, 0.0), BY, "dr-grpo")[1][0]


def test_an_errored_member_with_a_score_stays_and_says_so():
    signals, _ = group_signals(
        [Member(KEY, 0.0, error="timeout"), Member(KEY, 1.0), Member(KEY, 0.0, error="timeout")], BY, "grpo"
    )
    assert [s.advantage for s in signals] == pytest.approx([-0.57725, 1.15450, -0.57725], abs=1e-5)
    assert [s.group.get("error") for s in signals] == ["timeout", None, "timeout"]


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (Member(KEY), "withheld_unscored"),
        (Member(KEY, unreadable=True), "withheld_unreadable"),
        (Member(KEY, 0.0, never_called=True), "withheld_never_called"),
    ],
)
def test_a_group_is_withheld_whole(member, reason):
    signals, blocks = group_signals([*members(0.0, 1.0), member], BY, "grpo")
    assert [s.advantage for s in signals] == [None] * 3
    assert [s.group["withheld"] for s in signals] == [reason] * 3
    assert (blocks[0]["rollouts"], blocks[0]["withheld"]) == (3, reason)


def test_a_retried_attempt_counts_nowhere():
    signals, blocks = group_signals([*members(0.0, retried=True), *members(1.0)], BY, "grpo")
    assert [s.group["excluded"] for s in signals] == ["retried", "single_scored_rollout"]
    assert [s.advantage for s in signals] == [None, None]
    assert (blocks[0]["rollouts"], blocks[0]["mean"], blocks[0]["std"]) == (1, 1.0, None)


def test_groups_are_apart_by_what_they_are_made_by():
    other = Member({**KEY, "job": None}, 1.0)
    assert len(group_signals([*members(0.0), other], BY, "grpo")[1]) == 1
    _, blocks = group_signals([*members(0.0), other], (*BY, "job"), "grpo")
    assert [b["id"].rsplit("|", 1)[1] for b in blocks] == ["job=j", "job=null"]


def test_four_equal_rewards_give_zero():
    assert [s.advantage for s in group_signals(members(1.0, 1.0, 1.0, 1.0), BY, "grpo")[0]] == [0.0] * 4
