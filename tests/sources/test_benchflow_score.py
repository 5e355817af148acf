import math

import pytest

from trace_flywheel.sources.benchflow_score import Score, error_of, grader_of, score_of

COMPLETE = {
    "schema_version": 1,
    "policy": "tests-blockers-quality-v1",
    "status": "complete",
    "passed": True,
    "tests_pass": True,
    "all_blockers_pass": True,
    "failed_blockers": [],
    "verifier_reward": 1.0,
    "rubric_reward": 0.75,
    "reviewer_run": "reviews/r1",
    "revision": "scoring/a.json",
    "error": None,
}
REWARDS = {"reward": 0.75, "verifier_reward": 1.0, "rubric_reward": 0.75}


@pytest.mark.parametrize(
    ("result", "reward", "text"),
    [
        ({"rewards": {"reward": 1}}, 1.0, None),
        ({"rewards": {"reward": -0.5}}, -0.5, None),
        ({"rewards": {"reward": 1.5}}, 1.5, None),
        ({"rewards": {"reward": math.nan}}, None, "NaN"),
        ({"rewards": {"reward": math.inf}}, None, "Infinity"),
        ({"rewards": {"reward": -math.inf}}, None, "-Infinity"),
        ({"rewards": {"reward": True}}, None, "true"),
        ({"rewards": {"reward": "1.0"}}, None, "1.0"),
        ({"rewards": {"reward": None}}, None, None),
        ({"rewards": None}, None, None),
        ({"rewards": [1.0]}, None, None),
        ({"rewards": None, "reward": 0.75}, 0.75, None),
        ({"rewards": {"reward": 0.25}, "reward": 0.9}, 0.25, None),
        ({"rewards": {"reward": True}, "reward": 0.9}, 0.9, None),
        ({}, None, None),
    ],
)
def test_the_row_reward(result: dict, reward: float | None, text: str | None) -> None:
    assert score_of(result) == Score(reward, text)


def test_a_complete_scoring_decides() -> None:
    assert score_of({"scoring": COMPLETE, "rewards": REWARDS}) == Score(0.75, by_rubric=True)


def test_a_failed_gate_is_a_zero() -> None:
    blocked = {**COMPLETE, "passed": False, "all_blockers_pass": False, "failed_blockers": ["no-hardcoding"]}
    assert score_of({"scoring": blocked, "rewards": {**REWARDS, "reward": 0.0}}).reward == 0.0
    failing = {**COMPLETE, "passed": False, "tests_pass": False, "verifier_reward": 0.5}
    assert score_of({"scoring": failing, "rewards": {"reward": 0}}).reward == 0.0


@pytest.mark.parametrize(
    "change",
    [
        {"status": "error"},
        {"schema_version": 2},
        {"policy": "other"},
        {"error": "crashed"},
        {"passed": None},
        {"passed": False},
        {"tests_pass": False},
        {"all_blockers_pass": False},
        {"failed_blockers": ["a", "a"], "all_blockers_pass": False, "passed": False},
        {"verifier_reward": True},
        {"rubric_reward": 1.5},
        {"reviewer_run": " "},
        {"surprise": 1},
    ],
)
def test_a_scoring_that_does_not_hold_is_unscored_never_zero(change: dict) -> None:
    assert score_of({"scoring": {**COMPLETE, **change}, "rewards": REWARDS, "reward": 1.0}).reward is None


@pytest.mark.parametrize("rewards", [None, {}, {"reward": 1.0}, {**REWARDS, "rubric_reward": 0.5}])
def test_a_scoring_that_disagrees_with_the_rewards_is_unscored(rewards: dict | None) -> None:
    assert score_of({"scoring": COMPLETE, "rewards": rewards}).reward is None


def test_graders() -> None:
    assert grader_of({"task_digest": "sha256:d"}, None) == ("benchflow-verifier", "sha256:d")
    assert grader_of({"task_digest": "sha256:d", "scoring": COMPLETE}, "sha256:r") == ("benchflow-rubric", "sha256:r")


@pytest.mark.parametrize(
    ("result", "ran", "by"),
    [
        ({"error": "e", "error_category": "timeout"}, True, "agent"),
        ({"error": "e", "error_category": "idle_timeout"}, False, "agent"),
        ({"error": "e", "error_category": "provider_rate_limit"}, True, "infrastructure"),
        ({"error": "e", "error_category": "install_failure"}, False, "infrastructure"),
        ({"error": "e", "error_category": "other"}, False, "infrastructure"),
        ({"error": "e", "error_category": "other"}, True, "agent"),
        ({"error": "e"}, False, "infrastructure"),
        ({"verifier_error": "v", "verifier_error_category": "verifier_timeout"}, True, "verifier"),
        ({"verifier_error": "v"}, True, "verifier"),
    ],
)
def test_who_failed(result: dict, ran: bool, by: str) -> None:
    error = error_of(result, ran)
    assert error is not None
    assert error.by == by


@pytest.mark.parametrize("result", [{}, {"error": None}, {"error": ""}, {"export_error": "late"}])
def test_no_failure(result: dict) -> None:
    assert error_of(result, True) is None
