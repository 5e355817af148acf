"""What cannot be trained on."""

import numpy as np
import pytest

from tests.curation.index_frames import everyone, fates, index_frame
from trace_flywheel.curation.masking import supervised
from trace_flywheel.curation.quality import quality, quality_drops
from trace_flywheel.records.message import Message, ToolCall
from trace_flywheel.records.rollout import Correction, Rollout, RolloutError, Source

USER = Message(role="user", content="Go on")


def said(text=None, *call_ids, **fields):
    return Message(role="assistant", content=text, tool_calls=tuple(ToolCall(c, "ls") for c in call_ids), **fields)


def result(call_id, text="x"):
    return Message(role="tool", content=text, tool_call_id=call_id)


def rollout(*messages, **fields):
    source = Source("eval_run", "a/results.json", "0" * 64)
    return Rollout(run_id="root/a", trace_id="t", task_id="task", source=source, messages=messages, **fields)


def reason(view):
    drop = quality(view)
    return None if drop is None else drop.reason


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([USER, said("a")], None),
        ([USER, said(None, "c")], None),
        ([USER, said(None, "c"), result("c")], None),
        ([USER, said(None, "c"), result("c", "")], None),
        ([USER, said([{"type": "image_url", "image_url": "x"}])], None),
        ([USER, said("a"), USER], None),
        ([USER], "empty_answer"),
        ([], "empty_answer"),
        ([USER, said("")], "empty_answer"),
        ([USER, said(" \n")], "empty_answer"),
        ([USER, said(None)], "empty_answer"),
        ([USER, said(None, reasoning="hm")], "empty_answer"),
        ([USER, said("a"), USER, said("")], "empty_answer"),
        ([USER, said(""), USER, said("a")], None),
    ],
)
def test_an_answer_says_or_calls_something(messages, expected):
    assert reason(rollout(*messages)) == expected


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([USER, said(None, "a", "b"), result("a"), result("b"), said("x")], None),
        ([USER, said(None, "a", "b"), result("b"), result("a"), said("x")], None),
        ([USER, said(None, "a", "b"), result("a")], None),
        ([USER, said(None, "a"), result(None), said("x")], None),
        ([USER, said(None, "a"), result("a"), said(None, "a"), result("a"), said("x")], None),
        ([USER, said(None, "a"), said("x")], "unpaired_calls"),
        ([USER, said(None, "a", "b"), result("a"), said("x")], "unpaired_calls"),
        ([USER, said(None, "a"), USER], "unpaired_calls"),
        ([USER, result("a"), said(None, "a")], "unpaired_calls"),
        ([USER, said(None, "a"), result("a"), result("a"), said("x")], "unpaired_calls"),
        ([USER, said(None, "a"), result("z"), said("x")], "unpaired_calls"),
        ([USER, said("x"), result(None), said("y")], "unpaired_calls"),
    ],
)
def test_calls_and_results_pair_in_order(messages, expected):
    assert reason(rollout(*messages)) == expected


def test_a_cut_off_rollout_says_why():
    drop = quality(rollout(USER, said("a"), is_truncated=True, stop_reason="length"))
    assert (drop.stage, drop.reason, drop.evidence) == ("quality", "truncated", {"stop_reason": "length"})


def test_a_torn_recording_says_where():
    torn = {"file": "trajectory/llm_trajectory.jsonl", "line": 3, "text": "Input data was truncated"}
    drop = quality(rollout(USER, said("a"), is_truncated=True, metadata={"torn": torn}))
    assert (drop.reason, drop.evidence) == ("truncated", {"stop_reason": None, "torn": torn})


def test_a_corrected_rollout_is_complete():
    cut = rollout(USER, said("a"), is_truncated=True, correction=Correction("good"))
    assert reason(supervised(cut)) is None
    assert reason(cut) == "truncated"


def test_a_rollout_that_its_own_error_ended_is_no_row_but_may_be_an_rl_rollout():
    late = rollout(USER, said("a"), reward=1.0, error=RolloutError("AgentTimeoutError"))
    drop = quality(supervised(late))
    assert (drop.stage, drop.reason, drop.evidence) == ("quality", "truncated", {"error": "AgentTimeoutError"})
    assert reason(late) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"correction": Correction("good")},
        {"step_verdicts": ("pass",)},
        {"error": RolloutError("sandbox_setup", by="infrastructure")},
    ],
)
def test_an_error_is_no_fault_where_the_ending_is_not_the_agents(fields):
    late = rollout(USER, said("a"), **{"error": RolloutError("timeout"), **fields})
    assert reason(supervised(late)) is None


def test_an_answer_to_nothing_has_no_prompt():
    told = rollout(said("a"), USER, said("b"))
    for view in (told, supervised(told)):
        drop = quality(view)
        assert (drop.reason, drop.evidence) == ("no_prompt", {"message": 0})
    greeted = rollout(Message("system", "x"), said("a"), USER, said("b"))
    assert quality(greeted) is None
    assert quality(supervised(greeted)) is None


def test_only_rl_may_begin_with_the_assistant():
    frame = index_frame({"trace_id": "a", "pair_quality_reason": "no_prompt"})
    assert fates(frame, quality_drops(frame, everyone(frame), "pair")) == {"a": "quality/no_prompt"}
    assert quality_drops(frame, everyone(frame), "rl").empty


def test_a_row_with_every_step_masked_has_nothing_to_train_on():
    masked = rollout(USER, said("a"), step_verdicts=("fail",))
    assert reason(supervised(masked)) == "nothing_to_train_on"
    assert reason(masked) is None


def test_the_index_holds_both_views():
    frame = index_frame(
        {"trace_id": "a", "quality_reason": "nothing_to_train_on", "quality_evidence": '{"assistant_turns":1}'},
        {"trace_id": "b", "quality_reason": "truncated", "pair_quality_reason": "truncated"},
        {"trace_id": "c"},
    )
    row = quality_drops(frame, everyone(frame), "sft")
    assert fates(frame, row) == {"a": "quality/nothing_to_train_on", "b": "quality/truncated"}
    assert row["evidence"].tolist() == ['{"assistant_turns":1}', "{}"]
    assert fates(frame, quality_drops(frame, everyone(frame), "rl")) == {"b": "quality/truncated"}
    assert quality_drops(frame, np.zeros(3, dtype=bool), "sft").empty
