"""Preference pairs: the edge-case table row by row."""

import json
import math

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.curation.index_frames import fates
from tests.curation.pair_frames import build, group, pairs_of, reasons
from trace_flywheel.curation import preference
from trace_flywheel.settings import Pairs


def test_the_best_pass_over_the_lowest_fail():
    frame, answer = build(*group([0.6, 0.9], [0.1, 0.4]))
    assert pairs_of(frame, answer) == [("p1", "f0")]
    pair = answer.table.iloc[0]
    assert pair["delta"] == pytest.approx(0.8)
    assert (pair["mu"], pair["sigma"]) == (pytest.approx(0.5), pytest.approx(math.sqrt(0.085)))
    assert (bool(pair["rejected_is_min"]), pair["group_size"], pair["prefix"]) == (True, 4, 1)
    assert pair["group_id"] == "task=task|context=context|grader=exact_match|version=null"
    assert fates(frame, answer.drops) == {"p0": "pairs/not_selected_for_pair", "f1": "pairs/not_selected_for_pair"}


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (group([0.9], []), "no_contrast"),
        (group([0.9, 0.8, 0.7, 0.6], []), "no_contrast"),
        (group([], [0.1, 0.2, 0.3, 0.4]), "no_contrast"),
        (group([0.9, 0.8], [0.1]), "group_too_small"),
        (group([0.5, 0.5], [0.5, 0.5]), "zero_spread"),
        (group([0.4, 0.3], [0.6, 0.7]), "non_positive_delta"),
    ],
)
def test_a_group_without_a_pair_says_why(rows, reason):
    assert reasons(*rows) == ({f"pairs/{reason}"}, [])


def test_two_are_enough_where_the_setting_says_so():
    assert reasons(*group([0.9], [0.1]), pairs=Pairs(min_group=2)) == (set(), [("p0", "f0")])


@pytest.mark.parametrize("reward", [None, math.nan, math.inf])
def test_an_unscored_member_does_not_fill_the_group(reward):
    rows = [*group([0.9], [0.1, 0.2]), {"trace_id": "x", "verdict": "pass", "reward": reward}]
    got = reasons(*rows, alive=lambda frame: (frame["trace_id"] != "x").to_numpy())
    assert got == ({"pairs/group_too_small"}, [])


def test_statistics_count_members_that_were_dropped_later():
    """mu and sigma are frozen before any filter; a copy or a retry was never a member."""
    rows = group([0.9, 0.8], [0.1, 0.2])
    without = {"alive": lambda frame: (frame["trace_id"] != "p1").to_numpy()}
    frame, answer = build(*rows, **without)
    assert pairs_of(frame, answer) == [("p0", "f0")]
    assert answer.table["group_size"].tolist() == [4]
    assert reasons(*rows, members=lambda f: (f["trace_id"] != "p1").to_numpy(), **without)[0] == {
        "pairs/group_too_small"
    }


def test_nineteen_passes_and_one_fail_never_give_a_passing_rejected():
    """With binary rewards mu - 2 sigma lies above 0.5 from n = 19 on: nearest of all would be a pass."""
    frame, answer = build(*group([1.0] * 19, [0.0]))
    assert [r for _, r in pairs_of(frame, answer)] == ["f0"]
    assert answer.table["delta"].tolist() == [1.0]
    assert answer.table["mu"].iat[0] - 2 * answer.table["sigma"].iat[0] > 0.5


def spread_out():
    """Twenty members; mu - 2 sigma = 0.30 (about), mu - sigma = 0.59, the lowest 0.0."""
    return group([1.0] * 16, [0.6, 0.3, 0.0, 0.55])


@pytest.mark.parametrize(
    ("rule", "rejected", "is_min"), [("mu-2sigma", "f1", False), ("mu-sigma", "f0", False), ("max-min", "f2", True)]
)
def test_selectors_by_name(rule, rejected, is_min):
    frame, answer = build(*spread_out(), pairs=Pairs(rule=rule))
    assert [r for _, r in pairs_of(frame, answer)] == [rejected]
    assert answer.table["rejected_is_min"].tolist() == [is_min]


def test_equal_distance_takes_the_higher_reward():
    """The passing reward p solves mu - sigma = 0.2 for (p, p, p, 0.1, 0.3): both fails lie at 0.1 from the target,
    though not in binary."""
    p = (0.048 + math.sqrt(0.00192)) / 0.24
    frame, answer = build(*group([p, p, p], [0.1, 0.3]), pairs=Pairs(rule="mu-sigma"))
    assert answer.table["mu"].iat[0] - answer.table["sigma"].iat[0] == pytest.approx(0.2, abs=1e-15)
    assert [r for _, r in pairs_of(frame, answer)] == ["f1"]


def test_equal_best_rewards_go_to_the_judge_and_then_to_the_seeded_hash():
    rows = group([0.9, 0.9, 0.9], [0.1])
    winners = {pairs_of(*build(*rows, seed=seed))[0][0] for seed in range(20)}
    assert len(winners) > 1
    judged = [{**row, "judge_score": 0.8} if row["trace_id"] == "p1" else row for row in rows]
    assert {pairs_of(*build(*judged, seed=seed))[0][0] for seed in range(20)} == {"p1"}


def test_responses_that_differ_in_case_only_teach_nothing():
    rows = group([0.9, 0.8], [0.1, 0.2])
    assert reasons(*[{**row, "says": f"q {w}"} for row, w in zip(rows, ["a", "A", "a", "A"], strict=True)]) == (
        {"pairs/identical_responses"},
        [],
    )


def test_the_next_best_combination_is_tried():
    rows = group([0.9, 0.8], [0.1, 0.2])
    says = {"p0": "q same", "p1": "q other", "f0": "q SAME", "f1": "q third"}
    frame, answer = build(*[{**row, "says": says[row["trace_id"]]} for row in rows])
    assert pairs_of(frame, answer) == [("p0", "f1")]


def test_members_part_at_an_assistant_turn_or_not_at_all():
    rows = [{**row, "roles": "uaua"} for row in group([0.9, 0.8], [0.1, 0.2])]
    by_user = [{**row, "says": f"q a u{i} x{i}"} for i, row in enumerate(rows)]
    assert reasons(*by_user) == ({"pairs/user_divergence"}, [])
    later = [{**row, "says": f"q a u x{i}"} for i, row in enumerate(rows)]
    frame, answer = build(*later)
    assert pairs_of(frame, answer) == [("p0", "f0")]
    assert answer.table["prefix"].tolist() == [3]


def test_a_tool_that_answered_otherwise_is_no_preference():
    rows = [{**row, "roles": "uata", "says": f"q a r{i} x"} for i, row in enumerate(group([0.9, 0.8], [0.1, 0.2]))]
    frame, answer = build(*rows)
    assert set(fates(frame, answer.drops).values()) == {"pairs/user_divergence"}
    assert orjson.loads(answer.drops["evidence"].iat[0]) == {
        "chosen": "p0",
        "rejected": "f0",
        "message": 2,
        "roles": {"chosen": "t", "rejected": "t"},
        "candidates": {"user_divergence": 2},
    }


def test_pairs_stay_inside_a_context():
    rows = [
        *group([0.8, 0.7], [0.3, 0.2], prefix="a", context_hash="a"),
        *group([0.95, 0.94, 0.93, 0.92], [], prefix="b", context_hash="b"),
    ]
    frame, answer = build(*rows)
    assert pairs_of(frame, answer) == [("ap0", "af1")]
    dropped = fates(frame, answer.drops)
    assert {dropped[f"bp{i}"] for i in range(4)} == {"pairs/prompt_mismatch"}


def test_a_pass_and_a_fail_in_two_contexts_are_no_pair():
    rows = [*group([0.9, 0.8], [], context_hash="a"), *group([], [0.2, 0.1], context_hash="b")]
    assert reasons(*rows) == ({"pairs/prompt_mismatch"}, [])
    _, answer = build(*rows)
    told = [json.loads(evidence)["other_contexts"] for evidence in answer.drops["evidence"]]
    assert sorted(map(str, told)) == sorted(
        [str({"failing": 2, "passing": 0})] * 2 + [str({"failing": 0, "passing": 2})] * 2
    )


@pytest.mark.parametrize("other", [{"grader": "b"}, {"grader_version": "2"}, {"reward_low": 0.0, "reward_high": 10.0}])
def test_graders_never_meet(other):
    rows = [*group([0.9, 0.8], []), *group([], [0.2, 0.1], **other)]
    assert reasons(*rows) == ({"convertible/mixed_graders"}, [])
    enough = [*group([0.9, 0.8], [0.3, 0.1]), *group([0.5, 0.6], [0.0], prefix="x", **other)]
    frame, answer = build(*enough)
    assert pairs_of(frame, answer) == [("p0", "f1")]
    dropped = fates(frame, answer.drops)
    assert {dropped["xp0"], dropped["xp1"], dropped["xf0"]} == {"convertible/mixed_graders"}


@pytest.mark.parametrize("unfit", [{"error_by": "agent", "error_category": "timeout"}, {"is_truncated": True}])
def test_an_errored_or_truncated_member_counts_and_is_not_rejected(unfit):
    rows = group([0.9, 0.8], [0.0, 0.3])
    rows[2] |= unfit
    frame, answer = build(*rows)
    assert pairs_of(frame, answer) == [("p0", "f1")]
    assert answer.table["rejected_is_min"].tolist() == [False]
    assert answer.table["mu"].tolist() == [pytest.approx(0.5)]
    alone = [*group([0.9, 0.8, 0.7], []), {**group([], [0.0])[0], **unfit}]
    frame, answer = build(*alone)
    assert set(fates(frame, answer.drops).values()) == {"pairs/no_contrast"}
    assert orjson.loads(answer.drops["evidence"].iat[0]) == {
        "scored": 4,
        "passing": 3,
        "failing": 1,
        "errored_or_truncated": 1,
    }


def test_the_delta_is_the_judges_where_both_were_judged():
    rows = group([0.9, 0.8], [0.1, 0.4])
    for row, score in zip(rows, [7.0, 5.0, 2.0, 1.0], strict=True):
        row["judge_score"] = score
    assert build(*rows)[1].table["delta"].tolist() == [5.0]
    assert build(*rows, pairs=Pairs(delta_source="reward"))[1].table["delta"].tolist() == [pytest.approx(0.8)]
    rows[2]["judge_score"] = None
    assert build(*rows)[1].table["delta"].tolist() == [pytest.approx(0.8)]


def test_a_judge_that_disagrees_makes_no_pair():
    rows = [{**row, "judge_score": s} for row, s in zip(group([0.9, 0.8], [0.1, 0.1]), [1, 1, 2, 2], strict=True)]
    assert reasons(*rows) == ({"pairs/non_positive_delta"}, [])


def test_a_pass_that_its_own_error_ended_is_not_chosen():
    """Its verifier was content, but where it stops is no answer to learn."""
    rows = group([0.9, 0.8], [0.1, 0.2])
    rows[0] |= {"error_category": "timeout", "error_by": "agent"}
    frame, answer = build(*rows)
    assert pairs_of(frame, answer) == [("p1", "f0")]
    assert answer.table["mu"].iat[0] == pytest.approx(0.5)  # it counts all the same
    assert fates(frame, answer.drops)["p0"] == "pairs/not_selected_for_pair"
    alone = group([0.9], [0.1, 0.2, 0.3])
    alone[0] |= {"error_category": "timeout", "error_by": "agent"}
    frame, answer = build(*alone)
    assert set(fates(frame, answer.drops).values()) == {"pairs/no_contrast"}
    assert json.loads(answer.drops["evidence"].iat[0])["errored_or_truncated"] == 1


@pytest.mark.parametrize("ending", [{"error_category": "timeout", "error_by": "agent"}, {"is_truncated": True}])
def test_a_failure_that_broke_off_is_rejected_where_set(ending):
    rows = group([0.9, 0.8, 0.7], [0.1])
    rows[-1] |= ending
    assert reasons(*rows) == ({"pairs/no_contrast"}, [])
    assert reasons(*rows, pairs=Pairs(errored_rejected=True))[1] == [("p0", "f0")]


several = st.lists(
    st.tuples(*[st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.9]), min_size=1, max_size=4)] * 2, st.booleans()),
    min_size=1,
    max_size=6,
)


@given(several, st.integers(1, 9), st.integers(1, 4))
def test_messages_are_read_for_blocks_of_groups_and_the_pairs_are_the_same(groups, most, blocks):
    rows = [
        row | {"says": "q same"} if alike else row
        for number, (passes, fails, alike) in enumerate(groups)
        for row in group(passes, fails, prefix=f"{number}-", task_id=f"t{number}")
    ]
    asked = []
    frame, whole = build(*rows, asked=asked)
    parts = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preference, "MOST_AT_ONCE", most)
        patch.setattr(preference, "BLOCKS", blocks)
        _, cut = build(*rows, asked=parts)
    assert cut.table.to_dict("records") == whole.table.to_dict("records")
    assert fates(frame, cut.drops) == fates(frame, whole.drops)
    assert cut.candidates == whole.candidates
    assert (len(asked), sum(parts)) == (1, asked[0])
    assert max(parts) <= max(most, -(-asked[0] // blocks), 8), "a group of eight is never cut"


def test_no_more_than_half_of_many_messages_stand_in_memory_together(monkeypatch):
    monkeypatch.setattr(preference, "MOST_AT_ONCE", 4)
    rows = [row for n in range(6) for row in group([0.9], [0.1], prefix=f"{n}-", task_id=f"t{n}")]
    asked = []
    build(*rows, pairs=Pairs(min_group=2), asked=asked)
    assert asked == [6, 6]
