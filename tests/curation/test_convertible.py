"""A verdict, and a reward where one is needed."""

import math

import orjson
import pytest

from tests.curation.index_frames import everyone, fates, index_frame
from trace_flywheel.curation.convertible import convertible

UNGRADED = {"atraj": "accept", "eval_run": "needs_grading"}
NO_REWARD = {"reward": None, "verdict": "pass"}


def reasons(kind, **row):
    frame = index_frame({"trace_id": "t", **row})
    return fates(frame, convertible(frame, everyone(frame), kind, UNGRADED)).get("t", "").removeprefix("convertible/")


@pytest.mark.parametrize(
    ("row", "sft", "pair"),
    [
        ({}, "", ""),
        ({"verdict": "fail", "reward": 0.0}, "", ""),
        ({"verdict": None}, "no_verdict", "no_verdict"),
        ({"verdict": None, "verdict_text": "PASS"}, "no_verdict", "no_verdict"),
        (NO_REWARD, "no_reward", "no_reward"),
        ({"reward": None, "verdict": "fail"}, "no_reward", "no_reward"),
        ({"reward": None, "reward_text": "NaN"}, "non_finite_reward", "non_finite_reward"),
        ({"reward": math.inf}, "no_reward", "no_reward"),
        ({"source_run_id": "run-b"}, "run_id_mismatch", "run_id_mismatch"),
        ({"source_run_id": "run-a"}, "", ""),
        ({"source_run_id": "run a", "run_id": "root/x/run%20a"}, "", ""),
        ({"source_run_id": "run-b", "verdict": None}, "run_id_mismatch", "run_id_mismatch"),
        ({**NO_REWARD, "has_correction": True}, "", "no_reward"),
        ({"reward": None, "verdict": "fail", "has_step_verdicts": True}, "", "no_reward"),
        ({**NO_REWARD, "has_step_verdicts": True}, "no_reward", "no_reward"),
        ({"verdict": None, "reward": None, "source_format": "atraj"}, "", "no_verdict"),
        ({"verdict": None, "verdict_text": "ok", "source_format": "atraj"}, "no_verdict", "no_verdict"),
        ({"verdict": None, "reward": None, "source_format": "harbor"}, "no_verdict", "no_verdict"),
        ({"error_by": "infrastructure", "error_category": "install_failure"}, "", "no_reward"),
        ({"error_by": "verifier", "error_category": "verifier_crash"}, "", "no_reward"),
        ({"error_by": "agent", "error_category": "timeout"}, "", ""),
    ],
)
def test_what_each_dataset_needs(row, sft, pair):
    assert reasons("sft", **row) == sft
    assert reasons("pair", **row) == reasons("rl", **row) == pair


@pytest.mark.parametrize(
    ("row", "evidence"),
    [
        ({"verdict": None, "verdict_text": "PASS"}, {"verdict": "PASS"}),
        ({"reward": None, "reward_text": "NaN"}, {"reward": "NaN"}),
        ({"source_run_id": "run-b"}, {"run_id": "root/run-a", "source_run_id": "run-b"}),
        (
            {"error_by": "infrastructure", "error_category": "pipe_closed"},
            {"error_by": "infrastructure", "error_category": "pipe_closed"},
        ),
    ],
)
def test_evidence_is_what_the_source_wrote(row, evidence):
    frame = index_frame({"trace_id": "t", **row})
    drops = convertible(frame, everyone(frame), "pair", UNGRADED)
    assert orjson.loads(drops["evidence"].iat[0]) == {**evidence, "path": "run-a/results.json"}


@pytest.mark.parametrize("spelling", ["NaN", "Infinity", "true", "1.0"])
def test_a_reward_that_is_no_number_is_named_where_nothing_else_gives_a_verdict(spelling):
    frame = index_frame({"trace_id": "t", "verdict": None, "reward": None, "reward_text": spelling})
    found = convertible(frame, everyone(frame), "sft", UNGRADED)
    assert found["reason"].tolist() == ["non_finite_reward"]
    assert spelling in str(found["evidence"].iloc[0])
