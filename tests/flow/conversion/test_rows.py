"""Files of rows as input: rows as they are, bad ones dropped and named."""

import json

import pyarrow.parquet as pq
import pytest

from trace_flywheel.flow.conversion.convert import convert
from trace_flywheel.flow.conversion.request import Request
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.trainers.candidates import Choice

SECRET = "ghp_" + "aB3dE6gH9k" * 4
USER, SAYS = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
RESULT = {
    "example_id": 7,
    "prompt": [USER],
    "completion": [SAYS],
    "info": {
        "source": "benchflow",
        "task_id": "t",
        "task_name": "t",
        "agent": "opencode",
        "model": "m",
        "rollout_name": "t__1",
    },
    "reward": 0.5,
    "stop_condition": "agent_completed",
    "tool_defs": [],
    "trajectory": [
        {
            "prompt": [{"role": "system", "content": "s"}, USER],
            "completion": [SAYS],
            "extras": {"exchange_index": 3},
        },
        {"prompt": [USER], "completion": [SAYS], "extras": {"exchange_index": 4, "call_purpose": "title"}},
    ],
}


@pytest.fixture
def run(tmp_path):
    def convert_rows(*rows, **values):
        file, out = tmp_path / "results.jsonl", tmp_path / "out.jsonl"
        file.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
        warnings = []
        tally = convert(Request((file,), out, **values), 1, warnings.append)
        return [json.loads(line) for line in out.read_text().splitlines()], tally, warnings

    return convert_rows


def test_a_benchflow_row_is_its_last_agent_call(run, tmp_path):
    (row,), tally, _ = run(RESULT)
    assert [m["role"] for m in row["messages"]] == ["system", "user", "assistant"]
    assert (row["task_name"], row["task_id"], row["reward"], row["exchange_index"]) == ("t", "t", 0.5, 3)
    assert (row["source_index"], row["source_format"], row["source_example_id"]) == (0, "benchflow-results-jsonl", 7)
    assert row["source_path"] == str(tmp_path / "results.jsonl")
    assert [(i["path"], len(i["sha256"]), i["rows"]) for i in tally.inputs] == [(row["source_path"], 64, 1)]


def test_without_recorded_calls_it_is_prompt_and_completion(run):
    (row,), _, _ = run({**RESULT, "trajectory": []}, choice=Choice("exchange"))
    assert row["messages"] == [USER, SAYS]


@pytest.mark.parametrize(
    "untrained",
    [
        {"error": {"error": "x"}},
        {"is_truncated": True},
        {"stop_condition": "verifier_error"},
        {"info": {"source": "benchflow", "training_ready": False}},
    ],
)
def test_what_benchflow_does_not_train_on_gives_no_row(run, untrained):
    rows, tally, _ = run({**RESULT, **untrained}, RESULT)
    assert len(rows) == 1
    assert [d["reason"] for d in tally.drops] == ["terminal_error"]


@pytest.mark.parametrize("format", ["prime-sft", "trl-sft", "messages"])
def test_trainer_rows_go_from_layout_to_layout_and_keep_their_keys(run, format):
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    prime = {
        "messages": [USER, {**SAYS, "tool_calls": [call]}],
        "tool_defs": [{"name": "f"}],
        "reward": 1,
        "split": "x",
    }
    trl_call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    trl = {"prompt": [USER], "completion": [{**SAYS, "tool_calls": [trl_call]}], "tools": json.dumps([{"name": "f"}])}
    rows, _, _ = run(prime, trl, format=format)
    assert [r["source_format"] for r in rows] == ["prime-sft", "trl-sft"]
    assert rows[0]["split"] == "x"
    last = rows[1]["completion"][0] if format == "trl-sft" else rows[1]["messages"][1]
    arguments = last["tool_calls"][0]["function"]["arguments"]
    assert arguments == {"a": 1} if format == "trl-sft" else json.loads(arguments) == {"a": 1}


def test_a_bad_row_is_named_and_the_rest_converts(run, tmp_path):
    orphan = {"messages": [USER, {"role": "tool", "tool_call_id": "c", "content": ""}, SAYS]}
    rows, tally, warnings = run("{", [1], {"x": 1}, orphan, {"messages": [USER, SAYS]})
    assert len(rows) == 1
    file = tmp_path / "results.jsonl"
    assert [w.split(" (")[0] for w in warnings] == [
        f"not converted: {file}:1: bad_json",
        *(f"not converted: {file}:{n}: unknown_shape" for n in (2, 3, 4)),
    ]
    assert tally.rollouts == 5
    with pytest.raises(FlywheelError, match="bad_json"):
        run("{", strict=True)


def test_rows_are_redacted_their_kept_keys_too(run):
    rows, _, _ = run({"messages": [USER, {**SAYS, "content": SECRET}], "note": f"uses {SECRET}"})
    assert rows[0]["messages"][1]["content"] == "[REDACTED:github_token:1]"
    assert rows[0]["note"] == "uses [REDACTED:github_token:1]"


def test_rows_have_no_groups(run):
    with pytest.raises(FlywheelError, match="have no groups"):
        run(RESULT, group_advantage="grpo")


def test_a_window_is_of_results_and_leaves_examples_whole(run):
    whole = [{"role": "system", "content": "s"}, USER, SAYS, USER, SAYS]
    result = {**RESULT, "trajectory": [], "prompt": whole[:4], "completion": whole[4:]}
    rows, _, _ = run({"messages": whole}, result, choice=Choice(context="last-turn"))
    assert [[m["role"] for m in row["messages"]] for row in rows] == [
        ["system", "user", "assistant", "user", "assistant"],
        ["user", "assistant"],
    ]


@pytest.mark.parametrize(("format", "key"), [("prime-sft", "tool_defs"), ("trl-sft", "tools"), ("messages", "tools")])
def test_a_declaration_without_a_description_stays_without(run, format, key):
    bare = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    described = {"type": "function", "function": {**bare["function"], "name": "g", "description": ""}}
    (row,), _, _ = run({"messages": [USER, SAYS], "tool_defs": [bare, described]}, format=format)
    assert row[key] == [bare, described]


def test_a_table_has_a_description_for_every_tool(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"messages": [USER, SAYS], "tool_defs": [{"name": "f"}]}) + "\n")
    convert(Request((file,), tmp_path / "out.parquet", format="verl-sft"), 1)
    (row,) = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert row["tools"][0]["function"]["description"] == ""
