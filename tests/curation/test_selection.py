"""Top fraction per task and grader, its bypasses, and the cap."""

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.curation.index_frames import everyone, fates, index_frame
from trace_flywheel.curation.selection import task_cap, top_fraction
from trace_flywheel.settings import Selection

QUARTER = Selection()


def select(*rows, selection=QUARTER, seed=42):
    frame = index_frame(*rows)
    return fates(frame, top_fraction(frame, everyone(frame), selection, seed).drops)


def passing(rewards, prefix="t", **common):
    return [{"trace_id": f"{prefix}{i}", "reward": r, **common} for i, r in enumerate(rewards)]


def kept(rows, dropped):
    return sorted({row["trace_id"] for row in rows} - set(dropped))


@pytest.mark.parametrize(("n", "quota"), [(1, 1), (2, 1), (4, 1), (5, 2), (8, 2), (10, 3)])
def test_a_quarter_is_rounded_up(n, quota):
    rows = passing([i / 10 for i in range(n)])
    assert kept(rows, select(*rows)) == [f"t{i}" for i in range(n - quota, n)]


@pytest.mark.parametrize(("fraction", "n", "quota"), [(0.07, 100, 7), (0.1, 10, 1), (0.3, 10, 3), (1.0, 3, 3)])
def test_binary_fractions_keep_no_row_too_many(fraction, n, quota):
    rows = passing([i / 1000 for i in range(n)])
    assert len(rows) - len(select(*rows, selection=Selection(keep_fraction=fraction))) == quota


def test_a_hard_task_keeps_its_own_share():
    easy = passing([0.9, 0.8, 0.95, 0.85], prefix="e", task_id="easy")
    hard = passing([0.4, 0.41, 0.42, 0.43], prefix="h", task_id="hard")
    assert kept([*easy, *hard], select(*easy, *hard)) == ["e2", "h3"]


def test_a_failing_trace_neither_stays_nor_counts():
    rows = [*passing([0.5, 0.6, 0.7, 0.8]), {"trace_id": "f", "verdict": "fail", "reward": 0.95}]
    dropped = select(*rows)
    assert dropped["f"] == "selection/not_passing"
    assert kept(rows, dropped) == ["t3"]


def test_a_correction_goes_straight_in_and_does_not_count():
    rows = [
        *passing([0.9, 0.8, 0.7, 0.6]),
        {"trace_id": "c", "verdict": "fail", "reward": None, "has_correction": True},
    ]
    assert kept(rows, select(*rows)) == ["c", "t0"]


def test_a_failing_trace_with_step_verdicts_enters_masked():
    rows = [
        {"trace_id": "m", "verdict": "fail", "reward": 0.2, "has_step_verdicts": True},
        {"trace_id": "n", "verdict": "fail", "reward": 0.2},
    ]
    assert select(*rows) == {"n": "selection/not_passing"}


def test_an_accepted_ungraded_trace_is_not_ranked():
    rows = [{"trace_id": f"u{i}", "verdict": None, "reward": None, "source_format": "atraj"} for i in range(5)]
    assert select(*rows) == {}


@pytest.mark.parametrize("by", ["infrastructure", "verifier"])
def test_a_failure_around_the_model_is_no_result(by):
    rows = [*passing([0.5]), {"trace_id": "x", "reward": 1.0, "error_by": by, "error_category": "crash"}]
    assert select(*rows) == {"x": "selection/infrastructure_error"}


def test_the_models_own_error_is_ranked():
    assert select({"trace_id": "x", "error_by": "agent", "error_category": "timeout"}) == {}


def test_graders_versions_and_scales_have_their_own_share():
    rows = [
        *passing([0.1, 0.2], prefix="a", grader="a"),
        *passing([0.8, 0.9], prefix="b", grader="b"),
        *passing([0.8, 0.9], prefix="c", grader="b", grader_version="2"),
        *passing([80, 90], prefix="d", grader="b", grader_version="2", reward_low=0, reward_high=100),
    ]
    assert kept(rows, select(*rows)) == ["a1", "b1", "c1", "d1"]


def test_evidence_names_rank_and_threshold():
    frame = index_frame(*passing([0.9, 0.5, 0.7]))
    selected = top_fraction(frame, everyone(frame), QUARTER, 42)
    assert orjson.loads(selected.drops["evidence"].iat[0]) == {
        "rank": 3,
        "of": 3,
        "threshold": 0.9,
        "keep_fraction": 0.25,
    }
    report = selected.thresholds.iloc[0]
    assert (report["task_id"], report["passing"], report["kept"], report["threshold"]) == ("task", 3, 1, 0.9)
    assert selected.tied_share == 0.0


def test_ties_go_to_the_judge_and_then_to_the_seeded_hash():
    judged = [{"trace_id": f"t{i}", "reward": 1.0, "judge_score": s} for i, s in enumerate([0.2, 0.9, None, 0.5])]
    assert kept(judged, select(*judged)) == ["t1"]
    tied = passing([1.0] * 4)
    winners = {tuple(kept(tied, select(*tied, seed=seed))) for seed in range(20)}
    assert len(winners) > 1
    assert select(*tied, seed=7) == select(*reversed(tied), seed=7)


def test_a_name_never_decides():
    tied = [{"trace_id": f"t{i}", "content": c} for i, c in enumerate("wxyz")]
    renamed = [{"trace_id": f"t{3 - i}", "content": c} for i, c in enumerate("wxyz")]
    content = {row["trace_id"]: row["content"] for row in tied}
    other = {row["trace_id"]: row["content"] for row in renamed}
    assert content[kept(tied, select(*tied))[0]] == other[kept(renamed, select(*renamed))[0]]


def test_the_tied_share_counts_those_that_the_hash_decided_among():
    frame = index_frame(*passing([1.0, 1.0, 1.0, 0.5], task_id="a"), *passing([0.5], prefix="z", task_id="b"))
    assert top_fraction(frame, everyone(frame), QUARTER, 42).tied_share == pytest.approx(3 / 5)


def test_dropped_before_is_not_ranked():
    frame = index_frame(*passing([0.5, 0.6, 0.7, 0.8]))
    alive = np.array([True, True, True, False])
    dropped = fates(frame, top_fraction(frame, alive, QUARTER, 42).drops)
    assert sorted(dropped) == ["t0", "t1"]


def test_nothing_alive_is_nothing_dropped():
    frame = index_frame(*passing([0.5]))
    nobody = np.zeros(1, dtype=bool)
    assert top_fraction(frame, nobody, QUARTER, 42).drops.empty
    assert task_cap(frame, nobody, 4, 42).empty


row_of = st.fixed_dictionaries(
    {
        "task_id": st.sampled_from("ab"),
        "grader": st.sampled_from(["g", "h", None]),
        "verdict": st.sampled_from(["pass", "pass", "fail"]),
        "reward": st.sampled_from([0.0, 0.5, 1.0]),
        "judge_score": st.sampled_from([None, 0.1, 0.9]),
        "has_correction": st.booleans(),
        "has_step_verdicts": st.booleans(),
        "error_by": st.sampled_from([None, None, "agent", "infrastructure"]),
    }
)


@given(st.lists(row_of, min_size=1, max_size=14), st.randoms(use_true_random=False))
def test_shuffling_and_renaming_runs_changes_nothing(rows, random):
    named = [{**row, "trace_id": f"t{i:02}", "content": f"c{i % 5}"} for i, row in enumerate(rows)]
    shuffled = list(named)
    random.shuffle(shuffled)
    assert select(*named) == select(*shuffled)
    frame = index_frame(*named)
    drops = top_fraction(frame, everyone(frame), QUARTER, 42).drops
    assert drops["row"].is_unique
    ranked = [
        r for r in named if r["verdict"] == "pass" and not r["has_correction"] and r["error_by"] != "infrastructure"
    ]
    stay = {r["trace_id"] for r in ranked} - set(fates(frame, drops))
    for task, grader in {(r["task_id"], r["grader"]) for r in ranked}:
        of_group = [r["trace_id"] for r in ranked if (r["task_id"], r["grader"]) == (task, grader)]
        assert len(stay & set(of_group)) == -(-len(of_group) // 4)


def cap(*rows, most=2):
    frame = index_frame(*rows)
    return fates(frame, task_cap(frame, everyone(frame), most, 42))


def test_the_cap_keeps_the_best_and_leaves_corrections_alone():
    rows = [*passing([0.5, 0.9, 0.7]), {"trace_id": "c", "reward": None, "has_correction": True}]
    assert cap(*rows) == {"t0": "cap/over_task_cap"}


def test_the_cap_is_per_task_whatever_the_grader():
    rows = [
        *passing([0.5, 0.9], grader="a"),
        *passing([0.7], prefix="u", grader="b"),
        *passing([0.1], "v", task_id="w"),
    ]
    assert cap(*rows) == {"t0": "cap/over_task_cap"}


def test_the_newest_policy_comes_first():
    rows = [
        {"trace_id": "old", "reward": 1.0, "policy_version": "step-9", "finished_at": "2026-01-01T00:00:00Z"},
        {"trace_id": "new", "reward": 0.5, "policy_version": "step-10", "finished_at": "2026-01-02T00:00:00Z"},
        {
            "trace_id": "new-early",
            "reward": 0.4,
            "policy_version": "step-10",
            "finished_at": "2025-01-01T00:00:00+01:00",
        },
        {"trace_id": "none", "reward": 1.0},
    ]
    assert cap(*rows) == {"old": "cap/over_task_cap", "none": "cap/over_task_cap"}
