"""Goldens are never converted, wherever their file comes from."""

import json

import pytest

from trace_flywheel.flow.conversion.convert import convert
from trace_flywheel.flow.conversion.request import Request
from trace_flywheel.records.errors import FlywheelError

STATEMENT = "Count the red lanterns along the northern quay and report the number of broken ones."


@pytest.fixture
def job(tmp_path, benchflow_trial):
    benchflow_trial(tmp_path / "jobs" / "j", "held__1")
    benchflow_trial(tmp_path / "jobs" / "j", "near__1", prompts=(f"Please: {STATEMENT}",))
    benchflow_trial(tmp_path / "jobs" / "j", "free__1")
    return tmp_path / "jobs"


def goldens(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


ROWS = ({"task_id": "held", "prompt": "Other."}, {"task_id": "g", "prompt": STATEMENT})


@pytest.mark.parametrize("named", [True, False])
def test_by_id_and_by_text_named_or_found(job, tmp_path, named):
    file = goldens(tmp_path / ("my.jsonl" if named else "eval/goldens.jsonl"), *ROWS)
    out = tmp_path / "rows.jsonl"
    tally = convert(Request((job,), out, goldens=(file,) if named else ()), 1)
    assert [json.loads(line)["task_name"] for line in out.read_text().splitlines()] == ["free"]
    assert [(d["stage"], d["reason"]) for d in tally.drops] == [
        ("golden", "golden_id"),
        ("golden", "golden_near_duplicate"),
    ]


def test_a_golden_file_that_cannot_be_read_stops_the_conversion(job, tmp_path):
    file = goldens(tmp_path / "my.jsonl", {"prompt": "no task"})
    with pytest.raises(FlywheelError, match=r"my\.jsonl:1: goldens cannot be read"):
        convert(Request((job,), tmp_path / "rows.jsonl", goldens=(file,)), 1)
    with pytest.raises(FlywheelError, match=r"none\.jsonl: goldens cannot be read"):
        convert(Request((job,), tmp_path / "rows.jsonl", goldens=(tmp_path / "none.jsonl",)), 1)
    assert not (tmp_path / "rows.jsonl").exists()
