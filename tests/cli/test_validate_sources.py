"""`flywheel validate` with the jobs that its rows came from: BenchFlow's counts, and which trials are damaged."""

import json
import shlex
import tarfile

import pytest

from trace_flywheel.cli.main import main

ROW = '{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}\n'
LLM = "trajectory/llm_trajectory.jsonl"


@pytest.fixture
def validate(tmp_path, capsys):
    file = tmp_path / "rows.jsonl"
    file.write_text(ROW)

    def run(*flags):
        code = main(["validate", str(file), *map(str, flags)])
        printed = capsys.readouterr()
        return code, json.loads(printed.out) if printed.out else None, printed.err

    return run


@pytest.fixture
def job(tmp_path, benchflow_trial):
    """Whole; cut in its last line; without a capture; without a score, calls or records; a result that is no JSON."""
    job = tmp_path / "jobs" / "j"
    benchflow_trial(job, "a__1", n_tool_calls=2)
    cut = benchflow_trial(job, "a__2", reward=0.0, trajectory_summary={"tool_call_steps": 1}) / LLM
    cut.write_bytes(cut.read_bytes()[:-5])
    (benchflow_trial(job, "a__3", n_tool_calls=0) / LLM).unlink()
    (benchflow_trial(job, "a__4", reward=None) / LLM).write_text("")
    broken = benchflow_trial(job, "a__5")
    (broken / "result.json").write_text("{")
    (broken / LLM).write_text("{}\nno JSON\n{}")
    benchflow_trial(job, "r__1", purpose="reviewer")
    (benchflow_trial(job, "a__6") / "result.json").unlink()
    return job


HEALTH = {
    "total_rows": 5,
    "scored_rows": 3,
    "unscored_rows": 2,
    "rows_with_tool_calls": 2,
    "missing_llm_trajectory": 1,
    "malformed_llm_trajectory": 2,
}


def test_source_health(validate, job):
    code, answer, _ = validate("--source-jobs", job.parent)
    assert (code, answer["rows"], answer["source_health"]) == (0, 1, HEALTH)
    assert set(answer) == {"format", "ok", "rows", "rows_with_tool_calls", "source_health"}


def test_a_whole_capture_is_required_of_every_trial_and_each_other_is_named(validate, job):
    code, answer, err = validate("--source-jobs", job, "--require-llm-trajectory")
    assert (code, answer) == (1, None)
    *damaged, last = err.splitlines()
    assert last == "source jobs contain missing/malformed llm_trajectory.jsonl"
    assert [line.partition(": ")[0] for line in damaged] == [
        f"{job}/a__2/{LLM}:2",
        f"{job}/a__3",
        f"{job}/a__5/{LLM}:2",
    ]
    assert validate("--source-jobs", job / "a__1", "--require-llm-trajectory")[0] == 0


def test_without_sources_there_is_nothing_to_require(validate):
    code, answer, err = validate("--require-llm-trajectory")
    assert (code, answer["ok"]) == (0, True)
    assert err == "--require-llm-trajectory: no --source-jobs, so no capture was looked at\n"


def test_a_canonical_selection_is_counted_and_decides_what_is_looked_at(validate, job, tmp_path):
    file = tmp_path / "selection.json"
    chosen = [{"rollout_dir": "a__1"}, {"rollout_dir": "a__3"}]
    file.write_text(json.dumps({"job_dir": str(job), "selected": chosen}))
    _, answer, _ = validate("--source-canonical-selection", file)
    assert answer["canonical_selected_rows"] == 2
    assert "source_health" not in answer
    _, answer, _ = validate("--source-canonical-selection", file, "--source-jobs", job)
    assert (answer["source_health"]["total_rows"], answer["source_health"]["missing_llm_trajectory"]) == (2, 1)


@pytest.mark.parametrize(
    ("text", "rows"), [('{"tasks": [{"task_id": "t"}]}', 1), ("[]", None), ('{"tasks": {}}', None)]
)
def test_a_task_manifest(validate, tmp_path, text, rows):
    file = tmp_path / "tasks.json"
    file.write_text(text)
    code, answer, err = validate("--task-manifest", file)
    if rows is None:
        assert (code, err) == (1, f"flywheel: {file}: tasks must be a list\n")
    else:
        assert answer["task_manifest_rows"] == rows


def test_no_jobs_there(validate, tmp_path):
    (tmp_path / "empty").mkdir()
    code, _, err = validate("--source-jobs", tmp_path / "empty")
    assert (code, "no job found here" in err) == (1, True)


@pytest.mark.corpus
def test_the_recorded_case(shared_dir, tmp_path, capsys, monkeypatch):
    """Every command of the case, run here: its exit code, and of its answer all that it says."""
    with tarfile.open(shared_dir / "conformance" / "benchflow-cases.tar.xz") as tar:
        members = [m for m in tar.getmembers() if m.name.startswith("benchflow-cases/c28b_validate_source/")]
        tar.extractall(tmp_path, members, filter="tar")
    case = tmp_path / "benchflow-cases" / "c28b_validate_source"
    monkeypatch.chdir(case)
    name, seen = "", 0
    for line in (case / "cmd.txt").read_text().splitlines():
        if line.startswith("# ") and ": exit " in line:
            name = line[2:].partition(":")[0]
        if line.startswith("bench train "):
            expected = case / "expected" / name
            code = main(shlex.split(line)[2:])
            printed = capsys.readouterr()
            assert code == int((expected / "exit_code.txt").read_text()), name
            seen += 1
            if code == 0:
                assert json.loads((expected / "stdout.txt").read_text()).items() <= json.loads(printed.out).items()
            else:
                assert (expected / "stderr.txt").read_text().strip() in printed.err
    assert seen == 6
