"""Every key and value of every layout for one trial: parallel calls, thoughts, a failed tool, a late system turn.

The values are those of docs/convert.md and of the packages that read them, written down by hand.
"""

import json
from typing import Any

import msgspec
import pytest

from tests.trainers.conftest import BASH, call, provenance
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.records.rows import PreferencePair
from trace_flywheel.trainers.layout import Candidate
from trace_flywheel.trainers.registry import layout

LIST = call("a", '{"command":  "ls"}')
READ = call("b", '{"command": "cat x", "n_token": 7}')
MESSAGES = (
    Message("system", "You are careful."),
    Message("user", "Measure it."),
    Message("assistant", "I look.", reasoning="First look.", tool_calls=(LIST, READ)),
    Message("tool", "x", tool_call_id="a", name="bash"),
    Message("tool", "no such file", tool_call_id="b", is_error=True),
    Message("system", "Half of the time is gone."),
    Message("assistant", "It is 12.3.", reasoning="Enough."),
)
TRIAL = Rollout(
    "jobs/a",
    "half-life__1a",
    "half-life",
    Source("benchflow", "a/half-life__1a/trajectory/llm_trajectory.jsonl", "ab"),
    MESSAGES,
    (BASH,),
    agent="opencode",
    model="deepseek/v4",
    request_model="v4",
    reward=0.5,
    verdict="fail",
    grader="tests",
    grader_version="d1",
    token_usage={"n_input_tokens": 5, "n_output_tokens": 2, "model": "v4"},
)
ROW_USAGE = TRIAL.token_usage
TOOL = {
    "type": "function",
    "function": {"name": "bash", "description": "Run a command.", "parameters": BASH.parameters},
}
READ_ARGUMENTS = {"command": "cat x", "n_token": 7}


def chat(first: Any, second: Any, **answered: Any) -> list[dict[str, Any]]:
    """The conversation as chat, with these arguments of the two calls."""
    calls = [
        {"id": "a", "type": "function", "function": {"name": "bash", "arguments": first}},
        {"id": "b", "type": "function", "function": {"name": "bash", "arguments": second}},
    ]
    return [
        {"role": "system", "content": "You are careful."},
        {"role": "user", "content": "Measure it."},
        {"role": "assistant", "content": "I look.", "tool_calls": calls, **answered},
        {"role": "tool", "tool_call_id": "a", "name": "bash", "content": "x"},
        {"role": "tool", "tool_call_id": "b", "content": "no such file"},
        {"role": "user", "content": "Half of the time is gone."},
        {"role": "assistant", "content": "It is 12.3.", **answered},
    ]


TEXT = chat(LIST.arguments, READ.arguments)
OBJECTS = chat({"command": "ls"}, READ_ARGUMENTS)
CANONICAL = chat(LIST.arguments, READ.arguments)
CANONICAL[2] |= {"reasoning_content": "First look."}
CANONICAL[4] |= {"is_error": True}
CANONICAL[5] |= {"role": "system"}
CANONICAL[6] |= {"reasoning_content": "Enough."}
RESULT = {"done": False, "metadata": {}}
SOURCE = {"source": "benchflow-llm-trajectory", "source_path": "jobs/a/half-life__1a/trajectory/llm_trajectory.jsonl"}

ROWS: dict[str, dict[str, Any]] = {
    "prime-sft": {
        "messages": TEXT,
        "tool_defs": [TOOL],
        "task_name": "half-life",
        **SOURCE,
        "exchange_index": 3,
        "reward": 0.5,
        "score": 0.5,
        "model": "v4",
        "agent": "opencode",
        "token_usage": ROW_USAGE,
    },
    "trl-sft": {
        "prompt": OBJECTS[:6],
        "completion": OBJECTS[6:],
        "tools": [TOOL],
        "reward": 0.5,
        "task_id": "half-life",
        "agent": "opencode",
        "model": "v4",
        "exchange_index": 3,
        "call_purpose": "agent",
        **SOURCE,
        "source_rollout_dir": "jobs/a/half-life__1a",
        "token_usage": ROW_USAGE,
    },
    "kto": {
        "prompt": OBJECTS[:2],
        "completion": OBJECTS[2:],
        "label": False,
        "tools": [TOOL],
        "task_id": "half-life",
        "reward": 0.5,
    },
    "verl-sft": {
        "messages": [{"tool_calls": [], "tool_call_id": None, "name": None, **message} for message in TEXT],
        "tools": [{"type": "function", "function": {**TOOL["function"], "parameters": BASH.parameters}}],  # type: ignore[dict-item]
        "task_id": "half-life",
        "reward": 0.5,
    },
    "skyrl-sft": {"messages": TEXT, "tools": [TOOL], "task_id": "half-life", "reward": 0.5},
    "openai-ft": {
        "messages": chat(LIST.arguments, READ.arguments, weight=1),
        "tools": [TOOL],
        "parallel_tool_calls": True,
    },
    "rl-prompts": {
        "prompt": OBJECTS[:2],
        "answer": None,
        "verifier": "tests@d1",
        "task_id": "half-life",
        "tools": [TOOL],
    },
    "verifiers": {
        "prompt": OBJECTS[:2],
        "completion": OBJECTS[2:],
        "reward": 0.5,
        "metrics": {"n_input_tokens": 5.0, "n_output_tokens": 2.0},
        "is_completed": True,
        "is_truncated": False,
        "info": {
            "task_id": "half-life",
            "rollout": "jobs/a/half-life__1a",
            "agent": "opencode",
            "model": "v4",
            "grader": "tests",
            "error": None,
            "tools": [TOOL],
        },
    },
    "openenv-episodes": {
        "episode_id": "jobs/a/half-life__1a",
        "messages": OBJECTS,
        "reward": 0.5,
        "done": True,
        "tool_trace": [
            {"tool_name": "bash", "arguments": {"command": "ls"}, "result": {"data": "x", "error": None, **RESULT}},
            {
                "tool_name": "bash",
                "arguments": READ_ARGUMENTS,
                "result": {"data": "no such file", "error": "no such file", **RESULT},
            },
        ],
        "metrics": {"n_input_tokens": 5.0, "n_output_tokens": 2.0},
        "verify_metrics": {},
        "artifacts": {},
        "task": {"task_id": "half-life", "tools": [TOOL]},
        "extra": {"agent": "opencode", "model": "v4", "grader": "tests", "error": None},
    },
    "atif": {
        "schema_version": "ATIF-v1.7",
        "session_id": "jobs/a/half-life__1a",
        "agent": {"name": "opencode", "version": "unknown", "model_name": "v4"},
        "steps": [
            {"step_id": 1, "source": "system", "message": "You are careful."},
            {"step_id": 2, "source": "user", "message": "Measure it."},
            {
                "step_id": 3,
                "source": "agent",
                "message": "I look.",
                "reasoning_content": "First look.",
                "tool_calls": [
                    {"tool_call_id": "a", "function_name": "bash", "arguments": {"command": "ls"}},
                    {"tool_call_id": "b", "function_name": "bash", "arguments": READ_ARGUMENTS},
                ],
                "observation": {
                    "results": [
                        {"source_call_id": "a", "content": "x"},
                        {"source_call_id": "b", "content": "no such file"},
                    ]
                },
            },
            {"step_id": 4, "source": "system", "message": "Half of the time is gone."},
            {"step_id": 5, "source": "agent", "message": "It is 12.3.", "reasoning_content": "Enough."},
        ],
        "final_metrics": {"total_steps": 5, "total_prompt_tokens": 5, "total_completion_tokens": 2},
        "extra": {"task_id": "half-life", "reward": 0.5},
    },
    "adp": {
        "schema_version": "1.3.1",
        "id": "jobs/a/half-life__1a",
        "content": [
            {"class_": "text_observation", "content": "You are careful.", "source": "environment"},
            {"class_": "text_observation", "content": "Measure it.", "source": "user"},
            {"class_": "message_action", "content": "I look.", "reasoning_content": "First look."},
            {"class_": "api_action", "function": "bash", "kwargs": {"command": "ls"}, "tool_call_id": "a"},
            {"class_": "text_observation", "content": "x", "source": "environment", "tool_call_id": "a"},
            {"class_": "api_action", "function": "bash", "kwargs": READ_ARGUMENTS, "tool_call_id": "b"},
            {"class_": "text_observation", "content": "no such file", "source": "environment", "tool_call_id": "b"},
            {"class_": "text_observation", "content": "Half of the time is gone.", "source": "environment"},
            {"class_": "message_action", "content": "It is 12.3.", "reasoning_content": "Enough.", "reward": 0.5},
        ],
        "details": {"task_id": "half-life", "agent": "opencode", "model": "v4"},
    },
    "messages": {
        "messages": CANONICAL,
        "tools": [TOOL],
        "task_id": "half-life",
        "run_id": "jobs/a",
        "trace_id": "half-life__1a",
        "agent": "opencode",
        "model": "deepseek/v4",
        "verdict": "fail",
        "reward": 0.5,
        "grader": "tests",
        "grader_version": "d1",
        "exchange_index": 3,
        "source_path": "a/half-life__1a/trajectory/llm_trajectory.jsonl",
        "source_sha256": "ab",
    },
}


def written(name: str, messages: tuple[Message, ...] = MESSAGES, **values: Any) -> tuple[dict[str, Any], list[str]]:
    """A layout's row for the trial, and its faults."""
    one = layout(name)
    trial = msgspec.structs.replace(TRIAL, messages=messages, **values)
    row = one.candidate_row(trial, Candidate(messages, trial.tools, exchange_index=3, model="v4"), "jobs")
    return row, list(one.validate(row))


@pytest.mark.parametrize("name", ROWS)
def test_every_key_and_value(name: str) -> None:
    row, faults = written(name)
    assert faults == []
    if name == "skyrl-sft":
        row["tools"] = json.loads(row["tools"])
    if name == "verl-sft":
        function = row["tools"][0]["function"]
        function["parameters"] = json.loads(function["parameters"])
    if name == "verifiers":
        assert 0 <= row.pop("example_id") < 1 << 32
    if name == "messages":
        assert len(row.pop("row_id")) == 32
    assert row == ROWS[name]


def test_every_key_and_value_of_a_pair() -> None:
    refused = (Message("assistant", "I guess 10."),)
    pair = PreferencePair("p1", MESSAGES[:2], MESSAGES[2:], refused, (BASH,), provenance("pair"))
    (row,) = layout("trl-dpo").pair_rows(pair)
    assert row == {
        "prompt": OBJECTS[:2],
        "chosen": OBJECTS[2:],
        "rejected": [{"role": "assistant", "content": "I guess 10."}],
        "tools": [TOOL],
        "task_id": "suite/half-life",
        "row_id": "p1",
    }


def test_every_key_and_value_of_a_question_and_its_answer() -> None:
    row, faults = written("instruct", (*MESSAGES[:2], MESSAGES[6]))
    assert faults == []
    assert row == {
        "instruction": "Measure it.",
        "response": "It is 12.3.",
        "system": "You are careful.",
        "task_id": "half-life",
        "reward": 0.5,
    }


PICTURE = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:,"}}]


@pytest.mark.parametrize("name", [*ROWS, "instruct"])
@pytest.mark.parametrize("position", [1, 3, 6], ids=["question", "result", "answer"])
def test_parts_that_are_no_text_refuse_the_row_and_are_never_cut(name: str, position: int) -> None:
    messages = list(MESSAGES)
    messages[position] = msgspec.structs.replace(messages[position], content=PICTURE)
    row, faults = written(name, tuple(messages))
    if name == "messages" or (name == "rl-prompts" and position > 1):
        assert faults == []
        assert name == "rl-prompts" or row["messages"][position]["content"] == PICTURE
    else:
        assert faults


@pytest.mark.parametrize("name", [name for name in ROWS if name != "rl-prompts"])
def test_a_call_that_nothing_answers_refuses_the_row_unless_it_ends_it(name: str) -> None:
    without = tuple(message for message in MESSAGES if message.tool_call_id != "b")
    assert written(name, without)[1]
    # the first two end with the calls, the third does not say which were one turn
    if name not in ("trl-sft", "openai-ft", "adp"):
        assert written(name, without[:4])[1]
    assert written(name, MESSAGES[:3])[1] == []


@pytest.mark.parametrize("arguments", ['{"command": ', "[1]"])
def test_a_malformed_call_is_in_no_answer_that_is_preferred(arguments: str) -> None:
    turn = msgspec.structs.replace(MESSAGES[2], tool_calls=(call("a", arguments, parsed=False), READ))
    messages = (*MESSAGES[:2], turn, *MESSAGES[3:])
    fault = "[0]: a call without a JSON object as arguments, which this trainer would train on"
    assert written("kto", messages, verdict="pass")[1] == [f"completion{fault}"]
    assert written("kto", messages, verdict="fail")[1] == []
    refused = (Message("assistant", "I guess 10."),)
    dpo = layout("trl-dpo")
    for chosen, rejected, faults in ((messages[2:], refused, [f"chosen{fault}"]), (refused, messages[2:], [])):
        (row,) = dpo.pair_rows(PreferencePair("p", messages[:2], chosen, rejected, (BASH,), provenance("pair")))
        assert list(dpo.validate(row)) == faults
