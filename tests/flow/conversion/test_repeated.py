"""A rollout that several inputs hold gives its rows once, and what is left out is named."""

import hashlib

import orjson
import pytest

from trace_flywheel.cli.main import main
from trace_flywheel.flow.conversion.convert import convert
from trace_flywheel.flow.conversion.request import Request
from trace_flywheel.trainers.candidates import Choice


@pytest.fixture
def jobs(tmp_path, benchflow_trial):
    benchflow_trial(tmp_path / "jobs" / "j", "a__1", answer="One.")
    benchflow_trial(tmp_path / "jobs" / "j", "b__1", answer="Two.", reward=0.0)
    return tmp_path / "jobs"


def run(*paths, name="rows.jsonl", **values):
    out = paths[-1].parent / name
    tally = convert(Request(tuple(paths), out, **values), 1)
    return [orjson.loads(line) for line in out.read_bytes().split(b"\n") if line], tally


def answers(rows):
    return [(row.get("messages") or row["completion"])[-1]["content"] for row in rows]


@pytest.mark.parametrize("before", ["prime-sft", "trl-sft"])
@pytest.mark.parametrize("after", ["prime-sft", "trl-sft"])
def test_a_job_beside_a_file_of_its_rows(jobs, before, after):
    run(jobs, name="before.jsonl", format=before)
    file = jobs.parent / "before.jsonl"
    file.write_bytes(file.read_bytes().split(b"\n")[0] + b"\n")
    rows, tally = run(file, jobs, format=after)
    assert answers(rows) == ["One.", "Two."]
    (drop,) = tally.drops
    assert (drop["rollout"], drop["stage"], drop["reason"]) == (f"{jobs}/j/a__1", "same_rollout", "same_rollout")
    assert drop["evidence"] == {"trace_id": "row-1", "path": str(file)}
    assert (tally.rollouts, tally.converted, tally.rows, tally.rows_with_calls) == (3, 2, 2, 2)


def test_a_benchflow_row_beside_its_trial(tmp_path, benchflow_trial):
    """BenchFlow's own `results.jsonl` lies in the job that it tells of."""
    trial = benchflow_trial(tmp_path / "jobs" / "j", "a__1")
    (converted,), _ = run(tmp_path / "jobs", name="before.jsonl")
    *prompt, answer = converted["messages"]
    row = {
        "prompt": prompt,
        "completion": [answer],
        "tool_defs": converted["tool_defs"],
        "reward": 1.0,
        "info": {"source": "benchflow", "task_name": "a", "rollout_name": "a__1"},
        "stop_condition": "agent_completed",
    }
    (trial.parent / "results.jsonl").write_bytes(orjson.dumps(row) + b"\n")
    rows, tally = run(trial.parent / "results.jsonl", tmp_path / "jobs")
    assert [row["source_format"] for row in rows] == ["benchflow-results-jsonl"]
    assert [(drop["reason"], drop["evidence"]["trace_id"]) for drop in tally.drops] == [("same_rollout", "a__1")]


def test_attempts_that_say_the_same_stay_apart(tmp_path, benchflow_trial):
    """Each row of a later input stands for one of an earlier, and a job's own repetitions are attempts."""
    for name in ("a__1", "a__2", "a__3"):
        benchflow_trial(tmp_path / "jobs" / "j", name)
    whole, _ = run(tmp_path / "jobs", name="before.jsonl")
    assert len(whole) == 3
    file = tmp_path / "before.jsonl"
    file.write_bytes(b"\n".join(file.read_bytes().split(b"\n")[:2]) + b"\n")
    rows, tally = run(file, tmp_path / "jobs")
    assert len(rows) == 3
    assert [drop["rollout"].rpartition("/")[2] for drop in tally.drops] == ["a__1", "a__2"]


def test_another_reward_is_another_rollout_and_an_unknown_one_is_not(jobs):
    (first, second), _ = run(jobs, name="before.jsonl")
    first["reward"] = 0.25
    del second["reward"]
    (jobs.parent / "before.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in (first, second)))
    rows, tally = run(jobs.parent / "before.jsonl", jobs)
    assert answers(rows) == ["One.", "Two.", "One."]
    assert [drop["rollout"].rpartition("/")[2] for drop in tally.drops] == ["b__1"]


def test_of_a_trials_calls_only_the_one_that_stands_there_is_left_out(jobs):
    calls, _ = run(jobs, name="calls.jsonl", choice=Choice("exchange"))
    run(jobs, name="before.jsonl")
    rows, tally = run(jobs.parent / "before.jsonl", jobs, choice=Choice("exchange"))
    assert len(rows) == len(calls)
    assert [(drop["reason"], drop["exchange_index"]) for drop in tally.drops] == [("same_rollout", 1)] * 2


def test_files_and_what_each_gave(jobs):
    run(jobs, name="before.jsonl")
    one, other = jobs.parent / "before.jsonl", jobs.parent / "again.jsonl"
    other.write_bytes(one.read_bytes())
    rows, tally = run(one, other)
    assert len(rows) == 2
    digest = hashlib.sha256(one.read_bytes()).hexdigest()
    assert tally.inputs == [
        {"path": str(one), "sha256": digest, "rows": 2},
        {"path": str(other), "sha256": digest, "rows": 0},
    ]


def test_rows_are_counted_where_they_wait_for_a_corpus(jobs):
    run(jobs, name="before.jsonl")
    (jobs.parent / "corpus.jsonl").write_bytes((jobs.parent / "before.jsonl").read_bytes().split(b"\n")[0] + b"\n")
    _, tally = run(jobs.parent / "before.jsonl", existing=(jobs.parent / "corpus.jsonl",))
    assert [told["rows"] for told in tally.inputs] == [1]


def test_the_command_says_why_nothing_is_left(jobs, capsys):
    run(jobs, name="before.jsonl")
    words = ["convert", str(jobs.parent / "before.jsonl"), str(jobs), "--out", str(jobs.parent / "o.jsonl")]
    assert main(words) == 0
    assert "Converted 2 row(s) from 4 rollout(s)" in capsys.readouterr().out
