"""Hand-made rows that the layout tests share."""

import pytest

from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.records.rows import PreferencePair, Provenance, SftRow

BASH = Tool("bash", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}})


def provenance(kind="sft", **values):
    fields = {"row_id": "r1", "kind": kind, "task_id": "suite/half-life", "run_id": "jobs/a", "trace_ids": ("t1",)}
    return Provenance(**{**fields, "rewards": (1.0,), "source": ("t1/result.json#ab",), **values})


def call(id_="call_1", arguments='{"command": "ls  -l"}', **values):
    return ToolCall(id_, "bash", arguments, **values)


@pytest.fixture
def conversation():
    """System, user, a call with text kept byte for byte, its result, a late system note, the answer."""
    return (
        Message("system", "You are careful."),
        Message("user", "Measure it."),
        Message("assistant", None, reasoning="First look.", tool_calls=(call(),)),
        Message("tool", "12.3", tool_call_id="call_1"),
        Message("system", "Half of the time is gone."),
        Message("assistant", "It is 12.3."),
    )


@pytest.fixture
def sft_row(conversation):
    return SftRow("r1", conversation, (BASH,), provenance())


@pytest.fixture
def rollout(conversation):
    return Rollout(
        "jobs/a",
        "half-life__1a",
        "half-life",
        Source("benchflow", "a/half-life__1a/trajectory/llm_trajectory.jsonl", "ab"),
        conversation,
        (BASH,),
        agent="opencode",
        model="deepseek/v4",
        request_model="v4",
        reward=0.5,
        token_usage={"total_tokens": 7},
    )


@pytest.fixture
def pair(conversation):
    return PreferencePair(
        "p1",
        conversation[:2],
        conversation[2:],
        (Message("assistant", "I guess 10."),),
        (BASH,),
        provenance("pair", trace_ids=("t1", "t2"), rewards=(1.0, 0.0)),
    )
