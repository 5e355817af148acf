import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Rollout, RolloutError
from trace_flywheel.sources.discover import discover, read_unit, units
from trace_flywheel.sources.reader import ReadOptions

TASK = "016_census-instrumentation__opencensus-python__step5"
TRIAL = "016_census-instrumentation__open__no2fnVR"
CONFIG = {
    "trial_name": TRIAL,
    "task": {"path": f"samples/{TASK}"},
    "agent": {"name": "terminus-2", "model_name": "prov/m-1", "kwargs": {"temperature": 0.6, "api_key": "x"}},
    "environment": {"type": "docker"},
}


def result(**fields: Any) -> dict[str, Any]:
    return {
        "id": "891baa6e",
        "trial_name": TRIAL,
        "task_name": TASK,
        "trial_uri": "file:///Users/someone/jobs/x",
        "task_checksum": "5bd8",
        "source": "samples",
        "config": CONFIG | {"trial_name": TRIAL},
        "agent_info": {"name": "terminus-2", "version": "2.0.0", "model_info": {"name": "m-1", "provider": "prov"}},
        "agent_result": {"n_input_tokens": 10, "n_output_tokens": 3, "cost_usd": None},
        "verifier_result": {"rewards": {"reward": 1.0}},
        "exception_info": None,
        "started_at": "2026-02-09T20:22:47Z",
        "finished_at": "2026-02-09T20:30:00Z",
    } | fields


TRAJECTORY = {
    "schema_version": "ATIF-v1.5",
    "agent": {"name": "terminus-2", "model_name": "prov/m-1"},
    "steps": [{"source": "user", "message": "do it"}, {"source": "agent", "message": "done"}],
}


def trial(job: Path, name: str = TRIAL, *, said: Any = TRAJECTORY, config: Any = CONFIG, graded: Any = None) -> Path:
    folder = job / name
    (folder / "agent").mkdir(parents=True)
    for path, value in ((RESULT, graded), ("config.json", config), ("agent/trajectory.json", said)):
        if value is not None:
            (folder / path).write_text(value if isinstance(value, str) else json.dumps(value))
    return folder


RESULT = "result.json"


def read(root: Path, options: ReadOptions | None = None) -> list[Rollout | Drop]:
    return [
        record
        for run in discover([root]).runs
        for unit in units(run)
        for record in read_unit(run, unit, options or ReadOptions())
    ]


def one(tmp_path: Path, **fields: Any) -> Rollout:
    trial(tmp_path / "job", graded=result(**fields))
    (found,) = read(tmp_path / "job")
    assert isinstance(found, Rollout)
    return found


def test_a_trial_becomes_a_rollout(tmp_path: Path) -> None:
    found = one(tmp_path)
    assert (found.run_id, found.trace_id, found.task_id, found.job) == ("job", TRIAL, TASK, "job")
    assert (found.task_digest, found.suite, found.session_id) == ("5bd8", "samples", "891baa6e")
    assert (found.agent, found.agent_version, found.model) == ("terminus-2", "2.0.0", "prov/m-1")
    assert (found.verdict, found.reward, found.rewards) == ("pass", 1.0, {"reward": 1.0})
    assert (found.grader, found.grader_version) == ("harbor-verifier", "5bd8")
    assert (found.started_at, found.finished_at) == ("2026-02-09T20:22:47Z", "2026-02-09T20:30:00Z")
    assert found.source.path == f"{TRIAL}/agent/trajectory.json"
    assert [m.role for m in found.messages] == ["user", "assistant"]
    assert found.token_usage == {"n_input_tokens": 10, "n_output_tokens": 3}
    assert found.sampling == {"temperature": 0.6}
    assert not found.never_called


def test_no_path_of_the_machine_and_no_key_comes_along(tmp_path: Path) -> None:
    text = str(one(tmp_path))
    assert "someone" not in text
    assert "api_key" not in text


@pytest.mark.parametrize(
    ("rewards", "reward", "verdict", "text"),
    [
        ({"reward": 1.0}, 1.0, "pass", None),
        ({"reward": 0.9999}, 0.9999, "fail", None),
        ({"reward": -100}, -100.0, "fail", None),
        ({"reward": None}, None, None, None),
        ({"reward": True}, None, None, "true"),
        ({"tests": 1.0}, None, None, None),
        ({"reward": 0.5, "style": 1.0}, 0.5, "fail", None),
    ],
)
def test_the_reward_decides_the_verdict(
    tmp_path: Path, rewards: Any, reward: float | None, verdict: str | None, text: str | None
) -> None:
    found = one(tmp_path, verifier_result={"rewards": rewards})
    assert (found.reward, found.verdict, found.reward_text, found.rewards) == (reward, verdict, text, rewards)


def test_the_pass_mark_is_a_setting(tmp_path: Path) -> None:
    trial(tmp_path / "job", graded=result(verifier_result={"rewards": {"reward": 0.5}}))
    (found,) = read(tmp_path / "job", ReadOptions(pass_reward=0.5))
    assert isinstance(found, Rollout)
    assert found.verdict == "pass"


def test_no_verifier_result_is_no_reward(tmp_path: Path) -> None:
    found = one(tmp_path, verifier_result=None)
    assert (found.reward, found.verdict, found.rewards) == (None, None, None)


@pytest.mark.parametrize(
    ("kind", "by"),
    [
        ("AgentTimeoutError", "agent"),
        ("RewardFileNotFoundError", "verifier"),
        ("VerifierTimeoutError", "verifier"),
        ("RuntimeError", "infrastructure"),
        ("DaytonaError", "infrastructure"),
        ("AgentSetupTimeoutError", "infrastructure"),
    ],
)
def test_an_exception_says_whose_failure_it_is_and_the_reward_stays(tmp_path: Path, kind: str, by: str) -> None:
    found = one(tmp_path, exception_info={"exception_type": kind, "exception_message": "m"})
    assert found.error == RolloutError(kind, "m", by)  # type: ignore[arg-type]  # the parameter is text
    assert (found.reward, found.verdict) == (1.0, "pass")


def test_a_trial_without_trajectory_stays_a_member(tmp_path: Path) -> None:
    trial(tmp_path / "job", said=None, graded=result(agent_result=None, verifier_result=None))
    trial(tmp_path / "job", "ran__abcdefg", said=None, graded=result(trial_name="ran__abcdefg"))
    never, ran = read(tmp_path / "job")
    assert isinstance(never, Rollout)
    assert isinstance(ran, Rollout)
    assert (never.messages, never.never_called) == ((), True)
    assert (ran.messages, ran.never_called) == ((), False)
    assert never.source.path == f"{TRIAL}/result.json"


def test_a_model_that_never_answered_was_never_called(tmp_path: Path) -> None:
    said = TRAJECTORY | {"steps": TRAJECTORY["steps"][:1]}  # type: ignore[index]  # a literal above
    trial(tmp_path / "job", said=said, graded=result(agent_result={"n_output_tokens": 0}))
    (found,) = read(tmp_path / "job")
    assert isinstance(found, Rollout)
    assert (len(found.messages), found.never_called) == (1, True)


def test_a_missing_result_names_whose_rollout_is_lost(tmp_path: Path) -> None:
    job = tmp_path / "job"
    trial(job, graded=result())
    trial(job, "other__task__abc1234", config=CONFIG | {"trial_name": "other__task__abc1234"})
    trial(job, "bare__task__abc1234", graded=None, config=None, said=None)
    (job / "config.json").write_text(json.dumps({"agents": [{"name": "terminus-2", "model_name": "prov/m-1"}]}))
    good, bare, own = sorted(read(job), key=lambda r: r.trace_id or "")
    assert isinstance(good, Rollout)
    assert isinstance(bare, Drop)
    assert isinstance(own, Drop)
    assert (bare.reason, bare.task_id, bare.trace_id) == ("missing_result", "bare__task", "bare__task__abc1234")
    assert (bare.agent, bare.model, bare.job) == ("terminus-2", "prov/m-1", "job")
    assert (own.reason, own.task_id, own.path) == ("missing_result", TASK, "other__task__abc1234")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"graded": "{"}, "bad_json"),
        ({"graded": result() | {"trial_name": None}}, "unknown_shape"),
        ({"graded": result(), "said": "{"}, "bad_json"),
        ({"graded": result(), "said": {"schema_version": "ATIF-v9", "steps": []}}, "unknown_shape"),
    ],
)
def test_a_trial_that_cannot_be_read_is_a_drop(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    trial(tmp_path / "job", **fields)
    (drop,) = read(tmp_path / "job")
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.task_id, drop.trace_id, drop.agent) == (reason, TASK, TRIAL, "terminus-2")


def test_a_continuation_is_read_and_none_outside_the_trial(tmp_path: Path) -> None:
    said = TRAJECTORY | {"continued_trajectory_ref": "trajectory.cont-1.json"}
    folder = trial(tmp_path / "job", said=said, graded=result())
    (folder / "agent" / "trajectory.cont-1.json").write_text(json.dumps(TRAJECTORY))
    (whole,) = read(tmp_path / "job")
    assert isinstance(whole, Rollout)
    assert (len(whole.messages), whole.is_truncated) == (4, False)
    outside = said | {"continued_trajectory_ref": "../../outside.json"}
    (tmp_path / "job" / "outside.json").write_text(json.dumps(TRAJECTORY))
    (folder / "agent" / "trajectory.json").write_text(json.dumps(outside))
    (cut,) = read(tmp_path / "job")
    assert isinstance(cut, Rollout)
    assert (len(cut.messages), cut.is_truncated) == (2, True)
    assert cut.metadata == {"environment": "docker", "lost_trajectories": ["../../outside.json"]}


def test_jobs_are_told_by_content(tmp_path: Path) -> None:
    trial(tmp_path / "jobs" / "named anything", graded=result())
    trial(tmp_path / "jobs" / "not", "a__b", said=None, graded={"x": 1}, config={"a": 1})
    found = discover([tmp_path / "jobs"])
    assert [(r.run_id, r.format) for r in found.runs] == [("jobs/named anything", "harbor")]
    assert [p.path for p in found.problems] == ["not/a__b"]


def test_a_stray_trial_beside_jobs_takes_none_of_them(tmp_path: Path) -> None:
    trial(tmp_path / "jobs" / "2026-02-09__12-22-47", graded=result())
    trial(tmp_path / "jobs", "stray__abcdefg", graded=result())
    assert [r.run_id for r in discover([tmp_path / "jobs"]).runs] == [
        "jobs/2026-02-09__12-22-47",
        "jobs/stray__abcdefg",
    ]


def test_a_trial_alone_is_a_run(tmp_path: Path) -> None:
    folder = trial(tmp_path / "job", graded=result())
    for given in (folder, folder / "result.json"):
        (found,) = read(given)
        assert (found.run_id, found.trace_id) == (TRIAL, TRIAL)


def test_finished_by_the_jobs_mark_else_by_its_trials(tmp_path: Path) -> None:
    job = tmp_path / "job"
    trial(job, graded=result())
    assert [r.finished for r in discover([job]).runs] == [True]
    trial(job, "b__2", graded=None)
    assert [r.finished for r in discover([job]).runs] == [False]
    (job / "result.json").write_text(json.dumps({"id": "j", "finished_at": "2026-02-09T13:02:07"}))
    assert [r.finished for r in discover([job]).runs] == [True]
    (job / "result.json").write_text(json.dumps({"id": "j", "finished_at": None}))
    assert [r.finished for r in discover([job]).runs] == [False]


@pytest.mark.corpus
def test_every_real_trial_ends_as_a_rollout_or_a_drop(corpus: Callable[[str], Path]) -> None:
    jobs = corpus("harbor-jobs-refresh") / "jobs"
    trials = sorted(path for path in jobs.glob("*/*") if path.is_dir())
    found = read(jobs)
    assert Counter(record.trace_id for record in found) == Counter(path.name for path in trials)
    lost = [record for record in found if isinstance(record, Drop)]
    assert [record.reason for record in lost] == ["missing_result"] * 4
    assert all(record.task_id and record.agent and record.model for record in lost)
    passed = [r for r in found if isinstance(r, Rollout) and r.verdict == "pass"]
    assert (len(found), len(passed)) == (126, 14)
    (late,) = [r for r in passed if r.error]
    assert late.error is not None
    assert (late.error.category, late.error.by, late.reward) == ("AgentTimeoutError", "agent", 1.0)
    for record in found:
        if isinstance(record, Rollout):
            calls = [call.id for message in record.messages for call in message.tool_calls]
            answers = [message.tool_call_id for message in record.messages if message.role == "tool"]
            assert answers == calls, record.trace_id
