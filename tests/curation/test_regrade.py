"""Verdicts and scores from files meet their rollouts by name, whatever the order."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.curation.index_frames import index_frame
from trace_flywheel.curation.regrade import join_scores, join_verdicts
from trace_flywheel.records.grading import JudgeEntry, VerdictEntry


def verdict(trace, run=None, verdict="pass", reward=1.0, line=1, version=None):
    return VerdictEntry(trace, verdict, "human", version, reward, run, "v.jsonl", line)


def grades(frame):
    columns = frame[["run_id", "trace_id", "verdict", "reward", "grader"]].astype(object)
    return {
        (run.rsplit("/", 1)[-1], trace): tuple(rest)
        for run, trace, *rest in columns.where(columns.notna(), None).itertuples(index=False)
    }


def test_a_verdict_takes_the_place_of_the_whole_grade_and_keeps_it_as_evidence():
    frame = index_frame(
        {"trace_id": "t", "verdict": "fail", "reward": 3.0, "reward_low": 0.0, "reward_high": 10.0},
        {"trace_id": "u", "verdict": None, "verdict_text": '"unsure"', "reward": None},
    )
    done = join_verdicts(frame, [verdict("t", version="2"), verdict("u", reward=None, verdict="fail", line=2)])
    assert grades(done.frame) == {("run-a", "t"): ("pass", 1.0, "human"), ("run-a", "u"): ("fail", None, "human")}
    assert done.frame[["reward_low", "reward_high", "verdict_text"]].isna().all(axis=None)
    assert orjson.loads(done.frame["superseded"].iat[0]) == {
        "verdict": "fail",
        "reward": 3,
        "grader": "exact_match",
        "grader_version": None,
        "verdict_text": None,
        "reward_text": None,
        "by": "v.jsonl:1",
    }
    assert (done.matched, done.unmatched) == (2, ())
    assert frame["superseded"].isna().all() if "superseded" in frame else True


def test_the_last_line_for_a_rollout_counts():
    frame = index_frame({"trace_id": "t"})
    done = join_verdicts(frame, [verdict("t", line=1), verdict("t", verdict="fail", reward=0.0, line=2)])
    assert grades(done.frame)["run-a", "t"] == ("fail", 0.0, "human")


@pytest.mark.parametrize(("run", "hit"), [("root/run-a", "run-a"), ("run-b", "run-b"), ("none", None), (None, None)])
def test_a_trace_of_two_runs_needs_its_run(run, hit):
    frame = index_frame({"trace_id": "t", "reward": 0.5}, {"trace_id": "t", "run_id": "root/run-b", "reward": 0.5})
    done = join_verdicts(frame, [verdict("t", run)])
    changed = [name for (name, _), (_, _, grader) in grades(done.frame).items() if grader == "human"]
    assert changed == ([hit] if hit else [])
    assert done.unmatched == (() if hit else ("v.jsonl:1",))


def test_copies_of_one_attempt_are_graded_together():
    frame = index_frame({"trace_id": "t"}, {"trace_id": "t", "run_id": "root/run-b"})
    frame["attempt_hash"] = "same"
    assert join_verdicts(frame, [verdict("t")]).matched == 2


def test_a_verdict_mends_a_broken_verifier_and_no_broken_machine():
    frame = index_frame(
        {"trace_id": "t", "error_by": "verifier", "error_category": "verifier_timeout", "reward": None},
        {"trace_id": "u", "error_by": "infrastructure", "error_category": "sandbox_setup"},
    )
    done = join_verdicts(frame, [verdict("t"), verdict("u")]).frame
    assert done["error_by"].tolist() == [None, "infrastructure"]
    assert done["error_category"].tolist() == [None, "sandbox_setup"]


def test_scores_of_several_judges_are_their_mean_and_say_whose():
    frame = index_frame({"trace_id": "t", "judge_score": 9.0}, {"trace_id": "u", "judge_score": 0.5})
    entries = [JudgeEntry("t", 0.2, judge="a"), JudgeEntry("t", 0.4, judge="a"), JudgeEntry("t", 0.8, judge="b")]
    done = join_scores(frame, [*entries, JudgeEntry("x", 1.0, path="s.jsonl", line=4)])
    assert done.frame["judge_score"].tolist() == [pytest.approx(0.6), 0.5]
    assert done.frame["judge"].tolist() == ["a/score+b/score", None]
    assert (done.matched, done.unmatched) == (1, ("s.jsonl:4",))


NAMES = st.sampled_from(["t0", "t1", "t2", "t3"])
RUNS = st.sampled_from([None, "run-a", "root/run-b", "other"])


@given(st.lists(st.tuples(NAMES, RUNS, st.sampled_from([0.0, 1.0])), max_size=8))
def test_what_no_entry_names_keeps_its_grade(given_entries):
    frame = index_frame(
        *({"trace_id": f"t{i}", "run_id": f"root/run-{r}", "reward": 0.5} for i in range(3) for r in "ab")
    )
    entries = [verdict(t, r, reward=reward, line=n) for n, (t, r, reward) in enumerate(given_entries)]
    done = join_verdicts(frame, entries)
    named = {(t, r.rsplit("/", 1)[-1]) for t, r, _ in given_entries if r in ("run-a", "root/run-b") and t != "t3"}
    for (run, trace), (_, reward, grader) in grades(done.frame).items():
        assert (grader == "human") == ((trace, run) in named)
        assert (reward == 0.5) == (grader != "human")
    assert done.matched == len(named)
    assert len(done.frame) == len(frame)
