"""A canonical selection decides alone, and keeps its order."""

import json

import pytest

from trace_flywheel.flow.conversion.convert import convert
from trace_flywheel.flow.conversion.request import Request
from trace_flywheel.flow.conversion.selection import selected_trials
from trace_flywheel.records.errors import FlywheelError


@pytest.fixture
def job(tmp_path, benchflow_trial):
    for number in range(3):
        benchflow_trial(tmp_path / "jobs" / "j", f"t__{number}", number / 2)
    return tmp_path / "jobs" / "j"


def selection(job, **content):
    file = job.parent / "selection.json"
    file.write_text(json.dumps(content))
    return file


@pytest.mark.parametrize(
    ("key", "rows"),
    [
        ("selected", [{"rollout_dir": "t__2"}, {"rollout_dir": "t__0"}]),
        ("selection", [{"result_json": "t__2/result.json"}, {"result_json": "t__0/result.json"}]),
    ],
)
def test_named_trials_in_the_files_order(job, tmp_path, key, rows):
    file = selection(job, job_dir=str(job), **{key: rows})
    assert selected_trials(file) == (job / "t__2", job / "t__0")
    out = tmp_path / "rows.jsonl"
    tally = convert(Request((tmp_path / "ignored",), out, selection=file, group_advantage="loo"), 1)
    assert [json.loads(line)["reward"] for line in out.read_text().splitlines()] == [1.0, 0.0]
    assert tally.groups[0]["key"]["job"] == "j"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ({"selected": 3}, "must contain selected or selection list"),
        ({"job_dir": "{job}", "selected": [{"rollout_dir": "nope"}]}, "selected rollout has no result.json: .*nope"),
        ({"selected": [{"task_id": "t"}]}, "row 0 names no rollout_dir or result_json"),
    ],
)
def test_faults(job, content, fault):
    content = {k: str(job) if v == "{job}" else v for k, v in content.items()}
    with pytest.raises(FlywheelError, match=fault):
        selected_trials(selection(job, **content))


def test_a_file_that_is_no_json(job):
    (job.parent / "s.json").write_text("{")
    with pytest.raises(FlywheelError, match=r"canonical selection .*s\.json: "):
        selected_trials(job.parent / "s.json")
