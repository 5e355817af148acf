"""Preference pairs: the edge-case table row by row, fates, order independence."""

import json
import math
import tracemalloc

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.curation.index_frames import everyone, fates, index_frame
from trace_flywheel.curation.preference import build_pairs
from trace_flywheel.curation.ragged import Ragged
from trace_flywheel.settings import Pairs


def hash_of(word):
    return int.from_bytes(word.encode(), "little")


def build(*rows, pairs=None, seed=42, alive=None, members=None):
    """`says` of a row is one word per message (default: a question and the trace's own answer)."""
    frame = index_frame(*[{k: v for k, v in row.items() if k != "says"} for row in rows])
    says = {(row.get("run_id", "root/run-a"), row["trace_id"]): row.get("says", f"q {row['trace_id']}") for row in rows}
    words = [says[a].split() for a in zip(frame["run_id"], frame["trace_id"], strict=True)]
    hashes = Ragged.of([[hash_of(w) for w in ws] for ws in words])
    norms = Ragged.of([[hash_of(w.lower()) for w in ws] for ws in words])
    live = everyone(frame) if alive is None else alive(frame)
    counted = everyone(frame) if members is None else members(frame)
    return frame, build_pairs(frame, live, counted, hashes, norms, pairs or Pairs(), seed)


def pairs_of(frame, answer):
    names = frame["trace_id"]
    return [(names.iat[c], names.iat[r]) for c, r in zip(answer.table["chosen"], answer.table["rejected"], strict=True)]


def group(passes, fails, prefix="", **common):
    return [
        *({"trace_id": f"{prefix}p{i}", "verdict": "pass", "reward": r, **common} for i, r in enumerate(passes)),
        *({"trace_id": f"{prefix}f{i}", "verdict": "fail", "reward": r, **common} for i, r in enumerate(fails)),
    ]


def reasons(*rows, **options):
    frame, answer = build(*rows, **options)
    return set(fates(frame, answer.drops).values()), pairs_of(frame, answer)


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


def test_one_pair_per_task_the_widest():
    rows = [
        *group([0.8, 0.7], [0.3, 0.2], prefix="a", context_hash="a"),
        *group([0.9, 0.7], [0.3, 0.1], prefix="b", context_hash="b"),
    ]
    frame, answer = build(*rows)
    assert (pairs_of(frame, answer), answer.built) == ([("bp0", "bf1")], 8)
    assert set(fates(frame, answer.drops).values()) == {"pairs/not_selected_for_pair"}
    frame, answer = build(*rows, pairs=Pairs(per_task=2))
    assert pairs_of(frame, answer) == [("bp0", "bf1"), ("ap0", "af1")]


def test_more_pairs_of_a_task_share_no_member():
    frame, answer = build(*group([0.9, 0.8], [0.1, 0.2]), pairs=Pairs(per_task=3))
    assert pairs_of(frame, answer) == [("p0", "f0"), ("p1", "f1")]
    assert answer.drops.empty


def test_the_top_by_delta_goes_round_the_tasks():
    rows = [
        *group([0.99, 0.98, 0.5], [0.0, 0.01], prefix="a", task_id="a"),
        *group([0.8, 0.7], [0.2, 0.3], prefix="b", task_id="b"),
        *group([0.6, 0.5], [0.3, 0.35], prefix="c", task_id="c"),
    ]
    frame, answer = build(*rows, pairs=Pairs(per_task=2, keep=2))
    assert pairs_of(frame, answer) == [("ap0", "af0"), ("bp0", "bf0")]
    dropped = fates(frame, answer.drops)
    assert {dropped[t] for t in ("ap1", "af1", "cp0", "cf0")} == {"pairs/below_delta"}
    assert dropped["ap2"] == "pairs/not_selected_for_pair"
    below = answer.drops[answer.drops["reason"] == "below_delta"]["evidence"].map(orjson.loads)
    assert {(e["rank"], e["keep"]) for e in below} == {(3, 2), (4, 2), (5, 2), (6, 2)}


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


def test_deltas_on_any_scale_stand_in_one_ranking():
    """9 of 100 points is less than 0.3 of 1, and a judge's 0.4 of the 0.5 that it ever spans is more than both."""
    rows = [
        *group([59.0, 58.0], [50.0, 51.0], prefix="a", task_id="a", grader="points", reward_low=0, reward_high=100),
        *group([0.6, 0.6], [0.3, 0.35], prefix="b", task_id="b", reward_low=0, reward_high=1),
        *group([0.2, 0.2], [0.1, 0.1], prefix="c", task_id="c", judge="j", grader="other"),
    ]
    for row in rows:
        if row["task_id"] == "c":
            row["judge_score"] = 0.9 if row["verdict"] == "pass" else 0.5
    rows.append({"trace_id": "z", "task_id": "z", "judge": "j", "judge_score": 0.4})
    frame, answer = build(*rows, pairs=Pairs(keep=2))
    told = answer.table[["task_id", "delta", "delta_source", "strength"]].to_dict("records")
    assert [(r["task_id"], r["delta_source"], round(r["delta"], 6), r["strength"]) for r in told] == [
        ("b", "reward", 0.3, 0.3),
        ("c", "judge", 0.4, 0.8),
    ]
    assert fates(frame, answer.drops)["ap0"] == "pairs/below_delta"


def test_a_grader_without_a_scale_spans_what_it_ever_gave():
    rows = [
        *group([9.0, 8.0], [7.0, 7.5], prefix="a", task_id="a"),
        *group([3.0, 3.0], [0.0, 1.0], prefix="b", task_id="b"),
    ]
    _, answer = build(*rows)
    assert answer.table["strength"].tolist() == [round(2 / 9, 12), round(3 / 9, 12)]


def told_of(frame, answer):
    names = frame["trace_id"].tolist()
    rows = zip(answer.drops["row"], answer.drops["evidence"], strict=True)
    return {names[row]: json.loads(evidence) for row, evidence in rows}


def test_every_candidate_is_told_of_its_members():
    """Two passes and three failures: p0 > f0 is kept, p1 > f1 is a pair too many; f2 scored above both passes."""
    frame, answer = build(*group([0.8, 0.7], [0.1, 0.2, 0.75]))
    assert pairs_of(frame, answer) == [("p0", "f0")]
    assert answer.candidates == {
        "paired": 2,  # p0 > f0 and p1 > f1
        "member_used": 3,  # p0 > f1, p0 > f2, p1 > f0
        "non_positive_delta": 1,  # p1 > f2
        "identical_responses": 0,
        "user_divergence": 0,
    }
    assert answer.built == 5
    told = told_of(frame, answer)
    assert told["p1"] == {
        "group_id": "task=task|context=context|grader=exact_match|version=null",
        "per_task": 1,
        "candidates": {"paired": 1, "member_used": 1, "non_positive_delta": 1},
    }
    assert told["f2"]["candidates"] == {"member_used": 1, "non_positive_delta": 1}


def test_a_pair_that_another_context_of_its_task_outdid_says_its_delta():
    rows = [
        *group([0.8, 0.7], [0.3, 0.2], prefix="a", context_hash="a"),
        *group([0.9, 0.7], [0.3, 0.1], prefix="b", context_hash="b"),
    ]
    told = told_of(*build(*rows))
    assert (told["ap0"]["delta"], told["ap0"]["per_task"]) == (pytest.approx(0.6), 1)
    assert told["ap0"]["candidates"] == {"paired": 1, "member_used": 1}
    assert "delta" not in told["ap1"]


def test_a_member_that_may_be_no_side_of_a_pair_says_so():
    rows = group([0.9, 0.8], [0.0, 0.3])
    rows[2] |= {"is_truncated": True}
    frame, answer = build(*rows)
    assert told_of(frame, answer)["f0"]["errored_or_truncated"] is True


def test_five_hundred_attempts_give_their_whole_candidate_set_and_little_memory():
    """250 passes and 250 failures: 62,500 candidates. A tenth of the answers repeat, a tenth part at a user turn."""
    rows = [
        *({"trace_id": f"p{i:03}", "reward": 0.6 + i / 1000, "says": f"q a u p{i % 225}"} for i in range(250)),
        *({"trace_id": f"f{i:03}", "verdict": "fail", "reward": i / 1000, "says": f"q a u f{i}"} for i in range(250)),
    ]
    for row in rows[:25]:
        row["says"] = f"q a v{row['trace_id']} x"
    for row in rows:
        row["roles"] = "uaua"
    build(*group([0.9, 0.8], [0.1, 0.2]))  # the loop is compiled
    tracemalloc.start()
    _, answer = build(*rows, pairs=Pairs(per_task=200, keep=150))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(answer.candidates.values()) == 62_500
    assert answer.candidates["user_divergence"] == 25 * 250
    assert answer.built == 225 * 250
    assert answer.candidates["paired"] == 225
    assert len(answer.table) == 150
    assert len(answer.drops) == 500 - 300
    assert answer.table["delta"].is_monotonic_decreasing
    assert peak < 8_000_000


def test_an_empty_frame_gives_no_pairs():
    frame = index_frame({"trace_id": "t"})[:0]
    answer = build_pairs(frame, everyone(frame), everyone(frame), Ragged.of([]), Ragged.of([]), Pairs(), 42)
    assert (len(answer.table), len(answer.drops), answer.built) == (0, 0, 0)


member = st.fixed_dictionaries(
    {
        "task_id": st.sampled_from("ab"),
        "context_hash": st.sampled_from(["c", "c", "d"]),
        "grader": st.sampled_from(["g", "g", "h"]),
        "verdict": st.sampled_from(["pass", "fail"]),
        "reward": st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        "judge_score": st.sampled_from([None, 0.1, 0.9]),
        "error_category": st.sampled_from([None, None, "timeout"]),
        "word": st.sampled_from(["x", "y", "X", "z", "x u1 z", "x u2 z", "x u1 y", "y u1"]),
    }
)


def offered(frame, answer):
    """Passes times failures of the groups that no reason of the whole group bars, unfit members apart."""
    whole = {"no_contrast", "prompt_mismatch", "group_too_small", "zero_spread", "mixed_graders"}
    barred = set(answer.drops["row"][answer.drops["reason"].isin(whole)].tolist())
    sound = frame[~frame.index.isin(barred) & frame["error_category"].isna()]
    groups = sound.groupby(["task_id", "context_hash", "grader"])["verdict"]
    return sum(int((v == "pass").sum()) * int((v == "fail").sum()) for _, v in groups)


@given(st.lists(member, min_size=1, max_size=16), st.randoms(use_true_random=False), st.sampled_from([1, 3, "all"]))
def test_every_member_has_one_fate_and_order_does_not_matter(members, random, keep):
    rows = [
        {
            **{k: v for k, v in m.items() if k != "word"},
            "trace_id": f"t{i:02}",
            "says": f"q {m['word']}",
            "roles": "uaua"[: 1 + len(m["word"].split())],
        }
        for i, m in enumerate(members)
    ]
    shuffled = list(rows)
    random.shuffle(shuffled)
    options = Pairs(keep=keep, per_task=2)
    frame, answer = build(*rows, pairs=options)
    other_frame, other = build(*shuffled, pairs=options)
    assert pairs_of(frame, answer) == pairs_of(other_frame, other)
    assert fates(frame, answer.drops) == fates(other_frame, other.drops)
    used = [t for pair in pairs_of(frame, answer) for t in pair]
    assert len(used) == len(set(used))
    assert sorted([*used, *fates(frame, answer.drops)]) == frame["trace_id"].tolist()
    assert answer.drops["row"].is_unique
    assert answer.candidates == other.candidates
    assert sum(answer.candidates.values()) == offered(frame, answer)
    for chosen, rejected in zip(answer.table["chosen"], answer.table["rejected"], strict=True):
        sides = frame.loc[[chosen, rejected]]
        assert sides["verdict"].tolist() == ["pass", "fail"]
        assert sides["reward"].iat[0] > sides["reward"].iat[1]
        assert (sides[["task_id", "context_hash", "grader"]].nunique() == 1).all()
    assert np.all(answer.table["delta"] > 0)
