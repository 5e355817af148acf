import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sources.eval_runs import read_messages, read_row, row
from trace_flywheel.records.canonical import canonical_json
from trace_flywheel.records.message import Message, ToolCall
from trace_flywheel.sources.eval_row import RowError


def test_absent_empty_and_null_content_of_a_call_are_one_form() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    forms = [{"content": None}, {"content": ""}, {}]
    found = {canonical_json(str(read_messages({"role": "assistant", "tool_calls": [call], **form}))) for form in forms}
    assert len(found) == 1
    assert b"None" not in canonical_json(read_messages({"role": "assistant", "content": "x"})[0].content)


@pytest.mark.parametrize(
    ("arguments", "text", "parsed"),
    [
        ('{"a": 1}', '{"a": 1}', True),
        ({"a": 1}, '{"a": 1}', True),
        (json.dumps('{"a": 1}'), '{"a": 1}', True),
        ("", "{}", True),
        (None, "{}", True),
        ({}, "{}", True),
        ("null", "{}", True),
        ("{'a': 1}", "{'a': 1}", False),
        ("[1]", "[1]", False),
        ('"text"', '"text"', False),
    ],
)
def test_arguments_have_one_form(arguments: Any, text: str, parsed: bool) -> None:
    call = {"id": "c1", "function": {"name": "f", "arguments": arguments}}
    (message,) = read_messages({"role": "assistant", "tool_calls": [call]})
    assert message.tool_calls == (ToolCall("c1", "f", text, parsed),)


def calls(*ids: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": id, "function": {"name": "f", "arguments": "{}"}} for id in ids],
    }


def result(id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


def shape(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [(m.role[0], m.tool_call_id or ",".join(c.id for c in m.tool_calls) or str(m.content)) for m in messages]


def test_results_follow_in_the_order_of_their_calls() -> None:
    user = {"role": "user", "content": "hm"}
    found = read_messages(calls("a", "b"), result("b", "2"), user, result("a", "1"))
    assert shape(found) == [("a", "a,b"), ("t", "a"), ("t", "b"), ("u", "hm")]
    assert [m.content for m in found[1:3]] == ["1", "2"]


def test_an_id_used_again_pairs_inside_its_turn() -> None:
    found = read_messages(calls("c"), result("c", "first"), calls("c"), result("c", "second"))
    assert shape(found) == [("a", "c"), ("t", "c"), ("a", "c-2"), ("t", "c-2")]
    assert [found[1].content, found[3].content] == ["first", "second"]


def test_empty_output_is_kept_and_an_open_call_at_the_end_is_legal() -> None:
    found = read_messages(calls("a"), result("a", ""), calls("b"))
    assert found[1].content == ""
    assert shape(found)[-1] == ("a", "b")


@pytest.mark.parametrize(
    "messages",
    [
        [result("a", "1"), calls("a")],
        [calls("a"), result("z", "1")],
        [{"role": "user", "content": "q"}, result("a", "1")],
    ],
)
def test_a_result_without_an_open_call_refuses_the_row(messages: list[dict[str, Any]]) -> None:
    with pytest.raises(RowError) as refused:
        read_messages(*messages)
    assert refused.value.reason == "orphan_tool_result"


def test_developer_is_system_and_two_system_messages_stay_two() -> None:
    found = read_messages({"role": "developer", "content": "d"}, {"role": "system", "content": "s"})
    assert [(m.role, m.content) for m in found] == [("system", "d"), ("system", "s")]


def test_parts_are_kept_when_one_is_no_text() -> None:
    text = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    only_text, mixed = read_messages({"role": "user", "content": text}, {"role": "user", "content": [*text, image]})
    assert only_text.content == "a\nb"
    assert mixed.content == [*text, image]


def test_tokens_reasoning_and_unknown_keys_stay_on_the_message() -> None:
    (found,) = read_messages(
        {
            "role": "assistant",
            "content": "a",
            "reasoning_content": "r",
            "token_ids": [1, 2],
            "logprobs": [-0.1, -1],
            "signature": "s",
        }
    )
    assert (found.reasoning, found.token_ids, found.logprobs) == ("r", (1, 2), (-0.1, -1.0))
    assert found.extra == {"signature": "s"}


def test_logprobs_in_another_form_are_kept_aside() -> None:
    (found,) = read_messages({"role": "assistant", "content": "a", "logprobs": {"content": []}})
    assert found.logprobs is None
    assert found.extra == {"logprobs": {"content": []}}


def test_declared_tools_are_taken_and_missing_ones_inferred_and_marked() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    declared = read_row(row(tools=[tool])).tools
    assert [(t.name, t.description, t.inferred) for t in declared] == [("f", "d", False)]
    inferred = read_row(row(messages=[calls("a")])).tools
    assert [(t.name, t.inferred) for t in inferred] == [("f", True)]


@given(st.permutations(["a", "b", "c"]))
def test_the_order_of_results_inside_a_turn_does_not_matter(order: list[str]) -> None:
    found = read_messages(calls("a", "b", "c"), *(result(id, id * 2) for id in order))
    assert [m.content for m in found[1:]] == ["aa", "bb", "cc"]
