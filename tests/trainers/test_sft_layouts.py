"""verl-sft, skyrl-sft, openai-ft, instruct: rows, masks in each trainer's dialect, and what is refused."""

import json

import msgspec
import pytest

from tests.trainers.conftest import BASH, call, provenance
from trace_flywheel.records.message import Message
from trace_flywheel.records.rows import SftRow
from trace_flywheel.trainers.layout import Candidate
from trace_flywheel.trainers.registry import layout

NAMES = ["verl-sft", "skyrl-sft", "openai-ft"]


def masked(row, *turns):
    """The row with these assistant turns (by number) masked and the others marked as trained on."""
    messages, number = [], 0
    for message in row.messages:
        if message.role == "assistant":
            message = msgspec.structs.replace(message, train_on=number not in turns)
            number += 1
        messages.append(message)
    return msgspec.structs.replace(row, messages=tuple(messages))


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_conversation_is_one_sound_row(name, sft_row, rollout):
    one = layout(name)
    (row,) = one.sft_rows(sft_row)
    assert [m["role"] for m in row["messages"]] == ["system", "user", "assistant", "tool", "user", "assistant"]
    assert row["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"command": "ls  -l"}'
    assert list(one.validate(row)) == []
    straight = one.candidate_row(rollout, Candidate(rollout.messages, rollout.tools), "jobs")
    assert straight["messages"] == row["messages"]
    assert list(one.validate(straight)) == []


def test_verl_messages_have_all_keys_and_tools_are_text(sft_row):
    (row,) = layout("verl-sft").sft_rows(sft_row)
    assert {tuple(sorted(m)) for m in row["messages"]} == {("content", "name", "role", "tool_call_id", "tool_calls")}
    assert json.loads(row["tools"][0]["function"]["parameters"]) == BASH.parameters


def test_skyrl_tools_are_one_json_text(sft_row):
    (row,) = layout("skyrl-sft").sft_rows(sft_row)
    assert [tool["function"]["name"] for tool in json.loads(row["tools"])] == ["bash"]


@pytest.mark.parametrize("name", ["verl-sft", "skyrl-sft"])
def test_a_trainer_without_masks_gets_the_part_before_the_first_masked_turn(name, sft_row):
    one = layout(name)
    (row,) = one.sft_rows(masked(sft_row, 1))
    assert [m["role"] for m in row["messages"]] == ["system", "user", "assistant"]
    assert list(one.validate(row)) == []


@pytest.mark.parametrize("name", ["verl-sft", "skyrl-sft"])
def test_and_none_where_the_first_turn_is_masked(name, sft_row):
    one = layout(name)
    (row,) = one.sft_rows(masked(sft_row, 0))
    assert "messages[2]: a masked turn, which this trainer would train on" in list(one.validate(row))


def test_openai_spells_masks_as_weights(sft_row):
    (row,) = layout("openai-ft").sft_rows(masked(sft_row, 0))
    assert [m.get("weight") for m in row["messages"]] == [None, None, 0, None, None, 1]
    assert not any("train_on" in m for m in row["messages"])
    assert row["parallel_tool_calls"] is False


def test_openai_says_when_calls_were_made_in_parallel():
    turn = Message("assistant", None, tool_calls=(call("a"), call("b")))
    results = (Message("tool", "1", tool_call_id="a"), Message("tool", "2", tool_call_id="b"))
    messages = (Message("user", "q"), turn, *results, Message("assistant", "Done."))
    (row,) = layout("openai-ft").sft_rows(SftRow("r", messages, (BASH,), provenance()))
    assert row["parallel_tool_calls"] is True
    assert list(layout("openai-ft").validate(row)) == []


def test_openais_limits(sft_row):
    one = layout("openai-ft")
    long = msgspec.structs.replace(BASH, name="a" * 65)
    (row,) = one.sft_rows(msgspec.structs.replace(sft_row, tools=(BASH, long)))
    assert list(one.validate(row)) == ["tools[1]: the name is not 1 to 64 letters, digits, _ or -"]
    (row,) = one.sft_rows(msgspec.structs.replace(sft_row, tools=(BASH,) * 129))
    assert "tools: 129 are declared; 128 are allowed" in list(one.validate(row))
    (row,) = one.sft_rows(masked(sft_row, 0, 1))
    assert list(one.validate(row)) == ["messages: no assistant turn to train on"]
    (row,) = one.sft_rows(sft_row)
    row["messages"] = row["messages"][:4]
    assert list(one.validate(row)) == ["messages[3]: the last message must be the assistant's"]


def test_an_openai_example_ends_with_the_last_answer(sft_row):
    one = layout("openai-ft")
    (whole,) = one.sft_rows(sft_row)
    (row,) = one.sft_rows(msgspec.structs.replace(sft_row, messages=sft_row.messages[:4]))
    assert [m["role"] for m in row["messages"]] == ["system", "user", "assistant"]
    assert row["messages"] == whole["messages"][:3]
    assert row["messages"][-1]["tool_calls"]
    assert list(one.validate(row)) == []
    (row,) = one.sft_rows(msgspec.structs.replace(sft_row, messages=sft_row.messages[:2]))
    assert [m["role"] for m in row["messages"]] == ["system", "user"]
    assert "messages[1]: the last message must be the assistant's" in list(one.validate(row))


def test_instruct_is_one_question_and_one_answer():
    messages = (Message("system", "Be brief."), Message("user", "Two and two?"), Message("assistant", "Four."))
    (row,) = layout("instruct").sft_rows(SftRow("r", messages, (), provenance()))
    assert (row["instruction"], row["response"], row["system"]) == ("Two and two?", "Four.", "Be brief.")
    assert list(layout("instruct").validate(row)) == []


@pytest.mark.parametrize(
    "answer",
    [
        Message("assistant", None, tool_calls=(call(),)),
        Message("assistant", "Four.", train_on=False),
        Message("assistant", [{"type": "image_url", "image_url": {"url": "data:,"}}]),
    ],
    ids=["a call", "masked", "a picture"],
)
def test_and_refuses_what_is_not(answer):
    row = SftRow("r", (Message("user", "Two and two?"), answer), (BASH,), provenance())
    (written,) = layout("instruct").sft_rows(row)
    assert list(layout("instruct").validate(written)) == ["messages: not one question and one plain answer to train on"]


def test_a_conversation_does_not_become_an_instruction(sft_row):
    (row,) = layout("instruct").sft_rows(sft_row)
    assert len(list(layout("instruct").validate(row))) == 1


@pytest.mark.parametrize("name", NAMES)
def test_an_unanswered_call_is_refused_everywhere(name, sft_row):
    messages = tuple(m for m in sft_row.messages if m.role != "tool")
    (row,) = layout(name).sft_rows(msgspec.structs.replace(sft_row, messages=messages))
    assert any("has no result" in fault for fault in layout(name).validate(row))
