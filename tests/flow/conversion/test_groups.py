"""Advantages in convert: the published figures, and groups that are withheld whole."""

from pathlib import Path

import orjson
import pytest

from trace_flywheel.flow.conversion.convert import convert
from trace_flywheel.flow.conversion.groups import summary_line
from trace_flywheel.flow.conversion.plan import job_names
from trace_flywheel.flow.conversion.request import Request

BY = ("task", "agent", "model")


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    return tmp_path / "jobs"


def run(jobs: Path, by=BY, normalisation="grpo", **values):
    out = jobs.parent / "rows.jsonl"
    tally = convert(Request((jobs,), out, group_advantage=normalisation, group_by=by, **values), 1)
    return [orjson.loads(line) for line in out.read_bytes().split(b"\n") if line], tally


@pytest.fixture
def three(jobs, benchflow_trial):
    """The published group: two tries at 0 that hit their time limit, one that passed, each a job of its own."""
    benchflow_trial(jobs / "try-1" / "2026-11-01", "t__1", 0.0, error="slow", error_category="timeout")
    benchflow_trial(jobs / "try-2" / "2026-11-02", "t__2", 1.0)
    benchflow_trial(jobs / "try-3" / "2026-11-03", "t__3", 0.0, error="slow", error_category="timeout")
    return jobs


def test_grpo_figures_and_the_group_block(three):
    rows, tally = run(three)
    assert [r["advantage"] for r in rows] == pytest.approx([-0.5772502865, 1.154500573, -0.5772502865])
    group = rows[0]["group"]
    assert group["id"] == "task=t|agent=opencode|model=deepseek/v4"
    assert (group["rollouts"], group["scored"], group["std_ddof"], group["eps"]) == (3, 3, 1, 1e-4)
    assert [r["group"].get("error") for r in rows] == ["timeout", None, "timeout"]
    assert tally.groups[0]["members"][1] == {
        "rollout": "t__2",
        "rollout_dir": f"{three}/try-2/2026-11-02/t__2",
        "reward": 1.0,
        "advantage": pytest.approx(1.154500573),
    }


def test_loo(three):
    rows, _ = run(three, normalisation="loo")
    assert [r["advantage"] for r in rows] == [-0.5, 1.0, -0.5]


@pytest.mark.parametrize(
    ("normalisation", "advantages"), [("dr-grpo", [-1 / 3, 2 / 3, -1 / 3]), ("max-rl", [-1.0, 2.0, -1.0])]
)
def test_without_a_standard_deviation(three, normalisation, advantages):
    rows, tally = run(three, normalisation=normalisation, reward_vector=True)
    assert [r["advantage"] for r in rows] == pytest.approx(advantages)
    assert [r["advantage_vector"][0] for r in rows] == pytest.approx(advantages)
    assert tally.groups[0]["normalisation"] == normalisation


def test_a_policy_version_of_the_source_is_never_overwritten(tmp_path):
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    rows = [{"trace_id": f"t{n}", "task_id": "a", "messages": messages, "reward": n / 4} for n in range(4)]
    rows[0]["policy_version"] = rows[1]["policy_version"] = "step-1"
    results = tmp_path / "bench" / "runs" / "r1" / "results.json"
    results.parent.mkdir(parents=True)
    results.write_bytes(orjson.dumps(rows))
    got, tally = run(tmp_path / "bench", ("task", "policy_version"), "loo", policy_version="step-2")
    assert [r["group"]["key"]["policy_version"] for r in got] == ["step-1", "step-1", "step-2", "step-2"]
    assert [r["advantage"] for r in got] == [-0.25, 0.25, -0.25, 0.25]
    assert len(tally.groups) == 2


def test_by_job_each_try_is_alone(three):
    rows, tally = run(three, by=(*BY, "job"))
    assert [r["advantage"] for r in rows] == [None, None, None]
    assert rows[0]["group"]["id"].endswith("|job=try-1/2026-11-01")
    assert rows[0]["group"]["excluded"] == "single_scored_rollout"
    assert summary_line(tally.groups, (*BY, "job"), "grpo") == (
        "Groups (grpo, by task,agent,model,job): 3; 0 unscored rollout(s) left out of every baseline;"
        " 3 group(s) with one scored rollout (no advantage)."
    )


def test_the_reward_filter_moves_no_baseline(three):
    rows, _ = run(three, min_reward=0.5)
    assert [r["advantage"] for r in rows] == pytest.approx([1.154500573])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda trial: (trial / "result.json").write_text('{"task_name": "t"'), "withheld_unreadable"),
        (lambda trial: (trial / "result.json").unlink(), "withheld_unreadable"),
        (lambda trial: (trial / "trajectory" / "llm_trajectory.jsonl").write_text(""), "withheld_never_called"),
        (
            lambda trial: (trial / "result.json").write_text(
                '{"task_name": "t", "agent": "opencode", "model": "deepseek/v4", "rewards": {"reward": NaN}}'
            ),
            "withheld_unscored",
        ),
    ],
)
def test_a_lost_member_withholds_its_group_whole(jobs, benchflow_trial, spoil, reason):
    job = jobs / "2026-11-01"
    for number, reward in enumerate((0.0, 1.0, 0.5)):
        trial = benchflow_trial(job, f"t__{number}", reward)
        benchflow_trial(job, f"u__{number}", reward)
    spoil(trial)
    rows, tally = run(jobs)
    assert [r["task_name"] for r in rows] == ["u", "u", "u"]
    assert {block["key"]["task"]: block.get("withheld") for block in tally.groups} == {"t": reason, "u": None}
    assert {d["reason"] for d in tally.drops if d["stage"] == "groups"} == {reason}


def test_equal_rewards_give_zero(jobs, benchflow_trial):
    for number in range(4):
        benchflow_trial(jobs / "j", f"t__{number}", 0.3)
    rows, _ = run(jobs)
    assert [r["advantage"] for r in rows] == [0.0] * 4


def test_job_names_are_relative_to_what_all_share():
    assert job_names([Path("/a/b/j1"), Path("/a/b/j1")]) == {Path("/a/b/j1"): "j1"}
    assert job_names([Path("/a/b/j1"), Path("/a/c/j1")]) == {Path("/a/b/j1"): "b/j1", Path("/a/c/j1"): "c/j1"}


def test_each_part_of_the_reward_has_its_own_advantage(jobs, benchflow_trial):
    for number, (reward, style) in enumerate(((0.0, 1.0), (1.0, 1.0), (1.0, None))):
        trial = benchflow_trial(jobs / "j", f"t__{number}", reward)
        result = orjson.loads((trial / "result.json").read_bytes())
        result["rewards"] |= {"style": style} if style is not None else {}
        (trial / "result.json").write_bytes(orjson.dumps(result))
    rows, tally = run(jobs, normalisation="loo", reward_vector=True)
    assert [r["reward_vector"]["names"] for r in rows] == [["reward", "style"], ["reward", "style"], ["reward"]]
    assert [r["advantage_vector"] for r in rows] == [[-1.0, 0.0], [0.5, 0.0], [0.5]]
    assert tally.groups[0]["vector_names_differ"] is True
    assert all(r["group"]["vector_names_differ"] is True for r in rows)
    assert list(rows[0])[-4:] == ["reward_vector", "advantage", "advantage_vector", "group"]


def test_a_part_that_one_member_has_gives_null(jobs, benchflow_trial):
    benchflow_trial(jobs / "j", "t__0", 0.0)
    trial = benchflow_trial(jobs / "j", "t__1", 1.0)
    result = orjson.loads((trial / "result.json").read_bytes())
    result["rewards"]["style"] = 0.5
    (trial / "result.json").write_bytes(orjson.dumps(result))
    rows, _ = run(jobs, normalisation="loo", reward_vector=True)
    assert rows[1]["advantage_vector"] == [1.0, None]


def test_a_part_that_max_rl_cannot_divide_by_gives_0_and_a_flag(jobs, benchflow_trial):
    for number, (reward, style) in enumerate(((1.0, -1.0), (0.0, 0.5), (1.0, 0.0))):
        trial = benchflow_trial(jobs / "j", f"t__{number}", reward)
        result = orjson.loads((trial / "result.json").read_bytes())
        result["rewards"]["style"] = style
        (trial / "result.json").write_bytes(orjson.dumps(result))
    rows, tally = run(jobs, normalisation="max-rl", reward_vector=True)
    assert [r["advantage_vector"] for r in rows] == [[pytest.approx(0.5), 0.0], [-1.0, 0.0], [pytest.approx(0.5), 0.0]]
    assert [r["group"]["non_positive_mean_parts"] for r in rows] == [["style"]] * 3
    assert tally.groups[0]["non_positive_mean_parts"] == ["style"]
    assert "non_positive_mean" not in tally.groups[0]
