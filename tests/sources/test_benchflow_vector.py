import json
import math
from pathlib import Path

from tests.sources.benchflow_jobs import chat, read_one, trial
from trace_flywheel.sources.benchflow_vector import reward_vector_of

SCORING = {
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
}
CHECKS = {"extra": {"outcome": "fail"}, "clear": {"score": 1}, "honest": {"outcome": "pass"}, "odd": {"score": 7}}
RUBRIC = {
    "criteria": [
        {"name": "honest", "kind": "blocker"},
        {"name": "clear", "kind": "scored", "weight": 2},
        {"name": "odd", "kind": "scored", "weight": 1},
    ]
}


def parts(vector: dict) -> list[tuple]:
    return list(zip(vector["names"], vector["kinds"], vector["weights"], vector["values"], strict=True))


def test_a_verifiers_numbers_with_the_reward_first() -> None:
    rewards = {"speed": 3, "reward": 0.5, "metrics": {"a": 1.0, "b": math.nan, "deep": {"c": 0}}, "ok": True, "t": "x"}
    vector = reward_vector_of({"rewards": rewards}, {}, {})
    assert vector["source"] == "verifier"
    assert parts(vector) == [
        ("reward", "verifier", None, 0.5),
        ("speed", "verifier", None, 3.0),
        ("metrics.a", "verifier", None, 1.0),
        ("metrics.deep.c", "verifier", None, 0.0),
    ]


def test_a_rubrics_criteria_in_its_order_then_unknown_checks() -> None:
    vector = reward_vector_of({"scoring": SCORING}, {"checks": CHECKS, "rubric_sha256": "sha256:r"}, RUBRIC)
    assert (vector["source"], vector["rubric_sha256"], vector["revision"]) == ("rubric", "sha256:r", "scoring/a.json")
    assert parts(vector) == [
        ("tests", "gate", None, 1.0),
        ("honest", "blocker", None, 1.0),
        ("clear", "scored", 2, 0.5),
        ("odd", "scored", 1, None),
        ("extra", "legacy", None, 0.0),
    ]


def test_without_the_review_the_two_numbers_of_the_scoring() -> None:
    vector = reward_vector_of({"scoring": SCORING}, {}, {})
    assert vector["source"] == "scoring"
    assert parts(vector) == [("tests", "gate", None, 1.0), ("rubric_reward", "quality", None, 0.75)]


def test_a_reviewed_trial_is_graded_by_its_rubric(tmp_path: Path) -> None:
    exchange = chat("done", [{"role": "user", "content": "go"}])
    folder = trial(tmp_path, "t__1", [exchange], {"scoring": SCORING, "rewards": {"reward": 0.75}})
    (folder / "scoring").mkdir()
    revision = {"rubric_sha256": "sha256:r", "rubric_snapshot": "scoring/rubric.json", "checks": CHECKS}
    (folder / "scoring" / "a.json").write_text(json.dumps(revision))
    (folder / "scoring" / "rubric.json").write_text(json.dumps(RUBRIC))
    rollout = read_one(tmp_path, pass_reward=0.7)
    assert (rollout.reward, rollout.verdict, rollout.reward_range) == (0.75, "pass", (0.0, 1.0))
    assert (rollout.grader, rollout.grader_version) == ("benchflow-rubric", "sha256:r")
    assert rollout.reward_vector is not None
    assert rollout.reward_vector["names"] == ["tests", "honest", "clear", "odd", "extra"]


def test_a_revision_outside_the_trial_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"rubric_sha256": "sha256:r"}')
    exchange = chat("done", [{"role": "user", "content": "go"}])
    scoring = {**SCORING, "revision": "../secret.json"}
    trial(tmp_path, "t__1", [exchange], {"scoring": scoring, "rewards": {"reward": 0.75}})
    assert read_one(tmp_path).grader_version is None


def test_an_unscored_trial_has_no_vector(tmp_path: Path) -> None:
    exchange = chat("done", [{"role": "user", "content": "go"}])
    trial(tmp_path, "t__1", [exchange], {"rewards": {"reward": math.nan, "speed": math.inf}})
    rollout = read_one(tmp_path)
    assert rollout.reward_vector is None
    assert rollout.rewards == {"reward": None, "speed": None}
