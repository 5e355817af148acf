"""Job folders to one trainer file: rows, order, filters, and what happens to bad input."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.sources.benchflow_jobs import chat, trial
from trace_flywheel.flow.conversion import convert as convert_module
from trace_flywheel.flow.conversion import pieces
from trace_flywheel.flow.conversion.convert import convert
from trace_flywheel.flow.conversion.manifest import Tally
from trace_flywheel.flow.conversion.plan import plan_of
from trace_flywheel.flow.conversion.request import Request
from trace_flywheel.flow.workers import Crash
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.trainers.candidates import Choice

SECRET = "ghp_" + "aB3dE6gH9k" * 4


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return tmp_path / "jobs" / "2026-11-04__17-49-57"


def run(job: Path, workers: int = 1, **values: object) -> tuple[list[dict], Tally, list[str]]:
    """Rows, tally and warnings of a conversion."""
    out = job.parent.parent / "rows.jsonl"
    warnings: list[str] = []
    request = Request(paths=(job.parent,), out=out, **values)  # type: ignore[arg-type]
    tally = convert(request, workers, warnings.append)
    return [orjson.loads(line) for line in out.read_bytes().split(b"\n") if line], tally, warnings


def test_one_row_per_trial_in_path_order(job, benchflow_trial):
    for name in ("b__2", "a__9", "a__10", "a-b__1"):
        benchflow_trial(job, name)
    rows, tally, _ = run(job)
    assert [Path(r["source_path"]).parts[-3] for r in rows] == ["a-b__1", "a__10", "a__9", "b__2"]
    assert (tally.rows, tally.seen, tally.rows_with_calls) == (4, 4, 4)
    assert tally.counts["exchanges_seen"] == 8
    assert [m["role"] for m in rows[0]["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert rows[0]["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"command":  "ls"}'
    assert (rows[0]["exchange_index"], rows[0]["model"], rows[0]["reward"]) == (1, "v4", 1.0)


def test_exchange_mode_gives_a_row_per_call(job, benchflow_trial):
    benchflow_trial(job, "a__1", prompts=("First.", "Second."))
    rows, _, _ = run(job, choice=Choice("exchange"))
    assert [r["exchange_index"] for r in rows] == [0, 1, 2, 3]
    assert [len(r["messages"]) for r in rows] == [3, 5, 7, 9]
    assert all(r["messages"][-1]["role"] == "assistant" for r in rows)


def test_the_last_turn_window(job, benchflow_trial):
    benchflow_trial(job, "a__1", prompts=("First.", "Second."))
    (full,), _, _ = run(job)
    (row,), _, _ = run(job, choice=Choice(context="last-turn"))
    assert [m["content"] for m in full["messages"]][:2] == ["You are careful.", "First."]
    assert [m["role"] for m in row["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert row["messages"][0]["content"] == "Second."


def test_terminal_errors_give_no_row(job, benchflow_trial):
    benchflow_trial(job, "a__1")
    benchflow_trial(job, "a__2", reward=0.0, error="took too long", error_category="timeout")
    benchflow_trial(job, "a__3", reward=1.0, verifier_error="broke")
    benchflow_trial(job, "a__4", reward=1.0, partial_trajectory=True)
    rows, tally, _ = run(job)
    assert len(rows) == 1
    assert [(d["rollout"][-4:], d["reason"]) for d in tally.drops] == [
        ("a__2", "terminal_error"),
        ("a__3", "terminal_error"),
        ("a__4", "terminal_error"),
    ]


def test_least_reward_and_unscored_trials(job, benchflow_trial):
    benchflow_trial(job, "a__1", reward=0.5)
    benchflow_trial(job, "a__2", reward=0.25)
    benchflow_trial(job, "a__3", reward=None)
    benchflow_trial(job, "a__4", reward=float("nan"))
    rows, _, _ = run(job)
    assert [r.get("reward") for r in rows] == [0.5, 0.25, None, None]
    assert "reward" not in rows[2]
    rows, tally, _ = run(job, min_reward=0.5)
    assert [r["reward"] for r in rows] == [0.5]
    assert [d["reason"] for d in tally.drops] == ["reward"] * 3


def test_a_bad_trial_is_told_and_the_rest_converts(job, benchflow_trial):
    benchflow_trial(job, "a__1")
    bad = benchflow_trial(job, "a__2") / "trajectory" / "llm_trajectory.jsonl"
    bad.write_bytes(b'{"request": \n' + bad.read_bytes())
    (benchflow_trial(job, "a__3") / "result.json").write_text('{"task_name": "a"')
    (benchflow_trial(job, "a__4") / "result.json").unlink()
    rows, tally, warnings = run(job)
    assert len(rows) == 1
    assert [w.split(": ")[1].rpartition("/")[2] for w in warnings] == [
        "llm_trajectory.jsonl:1",
        "result.json",
        "result.json",
    ]
    assert [d["reason"] for d in tally.drops] == ["bad_json", "bad_json", "missing_result"]
    assert (tally.rollouts, tally.seen, tally.converted) == (4, 3, 1)
    with pytest.raises(FlywheelError, match=r"a__2.*bad_json.*without --strict the rest is converted"):
        run(job, strict=True)


def test_redaction_is_on_and_counted(job, benchflow_trial):
    benchflow_trial(job, "a__1", answer=f"The key is {SECRET}.")
    (row,), tally, _ = run(job)
    assert SECRET not in str(row)
    assert row["messages"][-1]["content"] == "The key is [REDACTED:github_token:1]."
    assert tally.redactions == {"github_token": 1}
    (row,), _, _ = run(job, pii=None)
    assert row["messages"][-1]["content"] == f"The key is {SECRET}."


@pytest.mark.parametrize("mode", ["trial", "exchange"])
def test_the_same_bytes_with_any_number_of_workers(job, benchflow_trial, mode):
    for number in range(70):
        benchflow_trial(job, f"a__{number:03}", reward=number / 70, answer=f"It is {number}.")
    out = job.parent.parent / "rows.jsonl"
    for grouped in (None, "grpo"):
        bytes_of = []
        for workers in (1, 2):
            run(job, workers, choice=Choice(mode), group_advantage=grouped)
            bytes_of.append(out.read_bytes())
        assert bytes_of[0] == bytes_of[1]


def test_nothing_is_written_when_the_counts_are_not_as_asked(job, benchflow_trial):
    benchflow_trial(job, "a__1")
    out = job.parent.parent / "rows.jsonl"
    out.write_text("before")
    with pytest.raises(FlywheelError, match="row count 1 != expected 2"):
        run(job, expected_rows=2)
    with pytest.raises(FlywheelError, match="not all trainer rows contain tool calls: 0 / 0"):
        run(job, require_tool_calls=True, min_reward=2.0)
    assert out.read_text() == "before"
    assert not list(out.parent.glob(".rows.jsonl.*"))


def test_paths_that_cannot_be_converted(job, benchflow_trial, tmp_path):
    with pytest.raises(FlywheelError, match="No such file or directory"):
        run(job)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FlywheelError, match="no job found here"):
        convert(Request((tmp_path / "empty",), tmp_path / "x.jsonl"))
    benchflow_trial(job, "a__1")
    with pytest.raises(FlywheelError, match="is a folder"):
        convert(Request((job,), tmp_path))
    with pytest.raises(FlywheelError, match="is the input"):
        convert(Request((job / "x.jsonl",), job / "x.jsonl"))
    assert not (tmp_path / "x.jsonl").exists()


def test_two_jobs_of_one_name(job, benchflow_trial, tmp_path):
    other = tmp_path / "other" / "jobs" / job.name
    benchflow_trial(job, "a__1")
    benchflow_trial(other, "a__1")
    tally = convert(Request((job.parent, other.parent), tmp_path / "x.jsonl"))
    assert tally.rows == 2


def test_a_folder_that_no_format_claims_is_told_but_is_no_rollout(job, benchflow_trial):
    benchflow_trial(job, "a__1")
    strange = job.parent / "strange"
    strange.mkdir()
    (strange / "rows.jsonl").write_text("{}\n")
    rows, tally, warnings = run(job)
    assert len(rows) == 1
    assert (tally.rollouts, tally.seen, [d["reason"] for d in tally.drops]) == (1, 1, ["unknown_shape"])
    assert warnings[0].startswith(f"not converted: {strange}: unknown_shape")


def test_a_fault_nobody_foresaw_costs_one_rollout(job, benchflow_trial, monkeypatch):
    for name in ("a__1", "a__2", "a__3"):
        benchflow_trial(job, name)
    sound = pieces.outcome_of

    def broken(rollout: Rollout, *rest: Any) -> Any:
        if rollout.trace_id == "a__2":
            raise KeyError("names of " + SECRET)
        return sound(rollout, *rest)

    monkeypatch.setattr(pieces, "outcome_of", broken)
    rows, tally, warnings = run(job)
    assert len(rows) == 2
    (drop,) = tally.drops
    assert (drop["trace_id"], drop["stage"], drop["reason"]) == ("a__2", "read", "unreadable_file")
    assert (tally.rollouts, tally.converted) == (3, 2)
    (told,) = warnings
    assert "a__2" in told
    assert "KeyError in test_convert.py" in told
    assert SECRET not in told
    with pytest.raises(FlywheelError, match="a__2"):
        run(job, strict=True)


def test_a_dead_process_costs_its_unit(job, benchflow_trial, monkeypatch):
    for name in ("a__1", "a__2"):
        benchflow_trial(job, name)

    def died(function: Any, shared: Any, tasks: Any, *rest: Any) -> Any:
        return (Crash("the process died", died=True) for _ in tasks)

    def alone(function: Any, shared: Any, task: Any) -> Any:
        return Crash("the process died") if task.units[0].path.name == "a__1" else function(shared, task)

    monkeypatch.setattr(convert_module, "run_tasks", died)
    monkeypatch.setattr(convert_module, "run_alone", alone)
    rows, tally, warnings = run(job)
    assert [r["trace_id"] if "trace_id" in r else Path(r["source_path"]).parts[-3] for r in rows] == ["a__2"]
    assert [(d["reason"], d["evidence"]) for d in tally.drops] == [("unreadable_file", {"text": "the process died"})]
    assert len(warnings) == 1


def test_a_path_given_twice_is_taken_once(job, benchflow_trial):
    benchflow_trial(job, "a__1")
    other = job.parent.parent / "others"
    benchflow_trial(other / "j", "b__1")
    once = plan_of([job.parent, other])
    link = job.parent.parent / "same"
    link.symlink_to(job.parent)
    for twice in ([job.parent, other, job.parent], [job.parent, other, job.parent / ".", link]):
        assert [run.run_id for run in plan_of(twice).runs] == [run.run_id for run in once.runs]


def test_a_lost_call_costs_the_conversations_that_lack_it_and_no_other(tmp_path):
    user = {"role": "user", "content": "go"}
    orphan = {"role": "tool", "tool_call_id": "lost", "content": "out"}
    trial(tmp_path / "jobs" / "job", "t__1", [chat("first", [user]), chat("last", [user, orphan])])
    trial(tmp_path / "jobs" / "job", "t__2", [chat("other", [user])], result={"rewards": {"reward": 0.0}})
    job = tmp_path / "jobs" / "job"
    rows, tally, _ = run(job, choice=Choice("exchange"), group_advantage="grpo")
    assert [(r["exchange_index"], round(r["advantage"], 3)) for r in rows] == [(0, 0.707), (0, -0.707)]
    rows, tally, _ = run(job)
    (drop,) = tally.drops
    assert (drop["stage"], drop["reason"]) == ("convert", "invalid")
    assert "answers no open call" in drop["evidence"]["faults"][0]


@pytest.mark.parametrize(
    ("end", "said"), [(b'{"request": {"body": {"mess', "truncated"), (b'{"request": "\xc3', "UTF-8")]
)
def test_a_capture_cut_in_its_last_line_gives_no_trial_row_and_says_why(tmp_path, end, said):
    """The lost call may be the answer that was graded: what is left of the trial is no whole conversation."""
    job = tmp_path / "jobs" / "job"
    user = {"role": "user", "content": "go"}
    whole = "\n".join(json.dumps(chat(text, [user])) for text in ("one", "two")).encode()
    trial(job, "t__1", whole + b"\n" + end)
    trial(job, "t__2", [chat("other", [user])], result={"rewards": {"reward": 0.0}})
    rows, tally, warnings = run(job, group_advantage="grpo")
    assert [(r["source_path"].split("/")[-3], round(r["advantage"], 3)) for r in rows] == [("t__2", -0.707)]
    (drop,) = tally.drops
    assert (drop["rollout"].rpartition("/")[2], drop["stage"], drop["reason"]) == ("t__1", "convert", "torn_capture")
    assert (drop["evidence"]["file"], drop["evidence"]["line"]) == ("trajectory/llm_trajectory.jsonl", 3)
    assert said in drop["evidence"]["text"]
    assert drop["exchange_index"] == 2
    assert tally.counts["skipped_torn_capture"] == 1
    (warning,) = warnings
    assert "t__1/trajectory/llm_trajectory.jsonl:3: torn_capture (" in warning

    # each call that was recorded whole is whole
    rows, tally, warnings = run(job, choice=Choice("exchange"))
    assert [r["messages"][-1]["content"] for r in rows] == ["one", "two", "other"]
    assert [(d["reason"], d["exchange_index"]) for d in tally.drops] == [("torn_capture", 2)]
    assert (tally.converted, len(warnings)) == (2, 1)

    for choice in (Choice(), Choice("exchange")):
        with pytest.raises(FlywheelError, match=r"t__1.*jsonl:3: torn_capture.*without --strict the rest is converted"):
            run(job, choice=choice, strict=True)


@pytest.mark.parametrize("line", [b'{"request": {"bo', b'{"a": "\0"}'], ids=["cut", "nul"])
def test_a_capture_whose_only_line_is_no_json_is_not_called_empty(tmp_path, line):
    trial(tmp_path / "jobs" / "job", "t__1", line)
    rows, tally, warnings = run(tmp_path / "jobs" / "job")
    assert rows == []
    (drop,) = tally.drops
    assert (drop["reason"], drop["evidence"]["line"]) == ("torn_capture", 1)
    assert "llm_trajectory.jsonl:1: torn_capture" in warnings[0]


def test_events_cut_in_their_last_line_give_no_row(tmp_path):
    job = tmp_path / "jobs" / "job"
    said = [{"type": "user_message", "text": "go"}, {"type": "agent_message", "text": "k"}]
    events = trial(job, "t__1", events=said) / "trajectory" / "acp_trajectory.jsonl"
    events.write_bytes(events.read_bytes() + b'\n{"type": "agent_mess')
    rows, tally, _ = run(job)
    assert rows == []
    (drop,) = tally.drops
    assert (drop["reason"], drop["evidence"]["file"]) == ("torn_capture", "trajectory/acp_trajectory.jsonl")
    assert drop["evidence"]["line"] == 3


@pytest.mark.parametrize("mode", ["trial", "exchange"])
def test_a_bad_line_inside_a_capture_costs_the_whole_trial(tmp_path, mode):
    """Which calls the damage took is unknown, so none of them is trusted."""
    job = tmp_path / "jobs" / "job"
    user = {"role": "user", "content": "go"}
    first, last = (json.dumps(chat(text, [user])).encode() for text in ("one", "two"))
    trial(job, "t__1", first + b"\n" + last[:40] + b"\n" + last)
    rows, tally, (warning,) = run(job, choice=Choice(mode))
    assert rows == []
    (drop,) = tally.drops
    assert (drop["stage"], drop["reason"], drop["evidence"]["line"]) == ("read", "bad_json", 2)
    assert drop["source_path"].endswith("t__1/trajectory/llm_trajectory.jsonl")
    assert "t__1/trajectory/llm_trajectory.jsonl:2: bad_json" in warning


@pytest.mark.parametrize("spelling", ["..", "../../jobs", "a__1/../..", ".", "a__1", "a__1/result.json"])
def test_a_path_may_be_spelt_through_its_parents(job, benchflow_trial, monkeypatch, spelling):
    benchflow_trial(job, "a__1")
    monkeypatch.chdir(job)
    out = job.parent.parent / "rows.jsonl"
    convert(Request(paths=(Path(spelling),), out=out), 1, lambda _: None)
    (row,) = map(orjson.loads, out.read_bytes().splitlines())
    assert row["source_path"].startswith("" if spelling == "." else spelling.removesuffix("/result.json"))
    assert Path(row["source_path"]).is_file()


def test_a_path_back_out_of_a_link_leads_where_the_link_does(job, benchflow_trial):
    """`link/..` is the folder above the link's target, not the one that the link stands in."""
    benchflow_trial(job, "a__1")
    elsewhere = job.parent.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "link").symlink_to(job)
    (elsewhere / "decoy").mkdir()
    benchflow_trial(elsewhere / "decoy", "b__1")
    out = job.parent.parent / "rows.jsonl"
    convert(Request(paths=(elsewhere / "link" / "..",), out=out), 1, lambda _: None)
    (row,) = map(orjson.loads, out.read_bytes().splitlines())
    assert row["task_name"] == "a"
