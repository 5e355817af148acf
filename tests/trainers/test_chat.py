"""Canonical messages to chat objects: bug shapes A1, A2, A4, A10, A11, A12 of the field's reports."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.sources.wires.openai_chat import messages_of
from trace_flywheel.trainers.chat import argument_object, chat_call, chat_messages, chat_tools, supervised_turns


def one(message: Message, **options: object) -> dict:
    return chat_messages([message], **options)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("content", [None, ""])
def test_absent_content_of_a_call_has_one_form_per_layout(content):
    message = Message("assistant", content, tool_calls=(ToolCall("c", "f"),))
    assert one(message)["content"] == ""
    assert one(message, absent=None)["content"] is None


def test_argument_text_stays_byte_for_byte_and_becomes_an_object_where_asked():
    call = ToolCall("c", "f", '{"b": 1,\n "a":  "x"}')
    assert chat_call(call, "text")["function"]["arguments"] == '{"b": 1,\n "a":  "x"}'
    assert chat_call(call, "object")["function"]["arguments"] == {"b": 1, "a": "x"}


@pytest.mark.parametrize("text", ["", "  ", "null", "{}"])
def test_no_arguments_are_an_empty_object(text):
    assert argument_object(text) == {}
    assert chat_call(ToolCall("c", "f", text), "object")["function"]["arguments"] == {}


@pytest.mark.parametrize("text", ["[1]", '"x"', '{"a": ', "3"])
def test_text_that_holds_no_object_has_none(text):
    assert argument_object(text) is None


def test_a_malformed_call_stays_loadable_and_is_masked():
    message = Message("assistant", "x", tool_calls=(ToolCall("c", "f", '{"a": "cut', parsed=False),))
    row = one(message)
    assert orjson.loads(row["tool_calls"][0]["function"]["arguments"]) == {"_malformed_json_arguments": '{"a": "cut'}
    assert row["train_on"] is False
    row = one(Message("assistant", tool_calls=(ToolCall("c", "f", "[1]", parsed=False),)), arguments="object")
    assert row["tool_calls"][0]["function"]["arguments"] == {"_non_object_json_arguments": [1]}


def test_empty_tool_output_is_kept():
    assert one(Message("tool", "", tool_call_id="c")) == {"role": "tool", "tool_call_id": "c", "content": ""}


@pytest.mark.parametrize("role", ["tool", "user", "system"])
@pytest.mark.parametrize("absent", [None, ""])
def test_only_an_assistants_content_may_be_missing(role, absent):
    assert one(Message(role, None), absent=absent)["content"] == ""


def test_text_parts_are_joined_in_order_and_others_are_never_cut():
    text = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    image = [*text, {"type": "image_url", "image_url": {"url": "data:"}}]
    assert one(Message("user", text))["content"] == "a\nb"
    assert one(Message("user", image))["content"] == image


def test_a_late_system_turn_becomes_a_user_turn_only_where_a_template_needs_it():
    messages = [Message("system", "a"), Message("system", "b")]
    assert [m["role"] for m in chat_messages(messages)] == ["system", "user"]
    assert [m["role"] for m in chat_messages(messages, late_system="system")] == ["system", "system"]


def test_reasoning_is_kept_only_where_the_layout_says_so():
    message = Message("assistant", "x", reasoning="why")
    assert "reasoning_content" not in one(message)
    assert one(message, reasoning=True)["reasoning_content"] == "why"


def test_a_tool_without_a_schema_takes_an_empty_object():
    assert chat_tools([Tool("f")])[0]["function"] == {
        "name": "f",
        "description": "",
        "parameters": {"type": "object", "properties": {}},
    }


def test_supervised_turns_leave_out_masked_and_malformed_ones():
    messages = [
        Message("user", "q"),
        Message("assistant", "a"),
        Message("assistant", "b", train_on=False),
        Message("assistant", "c", tool_calls=(ToolCall("c", "f", "[", parsed=False),)),
        Message("assistant", "d", train_on=True),
    ]
    assert supervised_turns(messages) == [1, 4]


@given(st.dictionaries(st.text(max_size=5), st.integers(-9, 9) | st.none() | st.text(max_size=5), max_size=4))
def test_objects_survive_both_spellings(value):
    call = ToolCall("c", "f", orjson.dumps(value).decode())
    assert orjson.loads(chat_call(call, "text")["function"]["arguments"]) == value
    assert chat_call(call, "object")["function"]["arguments"] == value


@pytest.mark.parametrize(("recorded", "value"), [(5, 5), ("5", 5), ([1, 2], [1, 2]), ("[1, 2]", [1, 2]), (True, True)])
def test_arguments_that_are_no_object_stand_under_one_name(recorded, value):
    """Whether a recorder wrote the value or its text."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": recorded}}
    (message,) = messages_of([{"role": "assistant", "content": None, "tool_calls": [call]}])
    assert not message.tool_calls[0].parsed
    (row,) = chat_messages([message], arguments="object")
    assert row["tool_calls"][0]["function"]["arguments"] == {"_non_object_json_arguments": value}
    assert row["train_on"] is False
