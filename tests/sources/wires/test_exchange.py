"""Properties over all dialects: no call, argument or result is lost between a wire and the canonical messages."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.records.message import Message
from trace_flywheel.sources.pairing import pair
from trace_flywheel.sources.wires.exchange import answer_of, history_of
from trace_flywheel.sources.wires.openai_chat import tools_of
from trace_flywheel.sources.wires.parts import WireError

values = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text('aé"\\\n\u2028', max_size=4), st.lists)
arguments = st.dictionaries(st.text("abé", min_size=1, max_size=2), values, max_size=3)
turns = st.lists(
    st.tuples(
        st.one_of(st.none(), st.text("xy ", min_size=1, max_size=3)),
        st.lists(st.tuples(st.sampled_from(["bash", "read"]), arguments, st.text("ok\n", max_size=3)), max_size=3),
    ),
    min_size=1,
    max_size=4,
)
Turns = list[tuple[str | None, list[tuple[str, dict[str, Any], str]]]]


def chat(turns: Turns) -> list[Any]:
    items: list[Any] = [{"role": "user", "content": "go"}]
    for t, (text, calls) in enumerate(turns):
        listed = [
            {"id": f"c{t}-{k}", "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
            for k, (n, a, _) in enumerate(calls)
        ]
        items.append({"role": "assistant", "content": text, "tool_calls": listed})
        items += [{"role": "tool", "tool_call_id": f"c{t}-{k}", "content": out} for k, (_, _, out) in enumerate(calls)]
    return items


def anthropic(turns: Turns) -> list[Any]:
    items: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "go"}]}]
    for t, (text, calls) in enumerate(turns):
        blocks: list[Any] = [{"type": "text", "text": text}] if text else []
        blocks += [{"type": "tool_use", "id": f"c{t}-{k}", "name": n, "input": a} for k, (n, a, _) in enumerate(calls)]
        items.append({"role": "assistant", "content": blocks})
        results = [
            {"type": "tool_result", "tool_use_id": f"c{t}-{k}", "content": o} for k, (_, _, o) in enumerate(calls)
        ]
        if results:
            items.append({"role": "user", "content": results})
    return items


def responses(turns: Turns) -> list[Any]:
    items: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "go"}]}]
    for t, (text, calls) in enumerate(turns):
        if text:
            items.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
        for k, (name, given_arguments, _) in enumerate(calls):
            call = {"type": "function_call", "call_id": f"c{t}-{k}", "name": name}
            items.append({**call, "arguments": json.dumps(given_arguments)})
        items += [
            {"type": "function_call_output", "call_id": f"c{t}-{k}", "output": out}
            for k, (_, _, out) in enumerate(calls)
        ]
    return items


def told(messages: tuple[Message, ...]) -> list[tuple[str, str, Any]]:
    return [(c.id, c.name, json.loads(c.arguments)) for m in messages for c in m.tool_calls]


@pytest.mark.parametrize(("wire", "is_chat"), [(chat, True), (anthropic, True), (responses, False)])
@given(turns=turns)
def test_no_call_argument_or_result_is_lost(wire: Any, is_chat: bool, turns: Turns) -> None:
    items = json.loads(json.dumps(wire(turns)))
    paired = pair([m for _, m in history_of(items, None, None, is_chat)])
    assert not paired.orphans
    assert told(paired.messages) == [
        (f"c{t}-{k}", name, given_arguments)
        for t, (_, calls) in enumerate(turns)
        for k, (name, given_arguments, _) in enumerate(calls)
    ]
    assert [m.content for m in paired.messages if m.role == "tool"] == [
        out for _, calls in turns for _, _, out in calls
    ]
    texts = [m.content for m in paired.messages if m.role == "assistant" and m.content]
    assert "\n".join(map(str, texts)) == "\n".join(text for text, _ in turns if text)


@given(turns=turns)
def test_dialects_agree(turns: Turns) -> None:
    # A turn without calls ends a run, so between turns there are results.
    said = [(text or "-", calls or [("bash", {}, "")]) for text, calls in turns]
    as_chat = pair([m for _, m in history_of(chat(said), None, None, True)]).messages
    as_blocks = pair([m for _, m in history_of(anthropic(said), None, None, True)]).messages
    assert [(m.role, m.content, told((m,))) for m in as_chat] == [(m.role, m.content, told((m,))) for m in as_blocks]


BODIES: list[tuple[Any, str, str | None, bool]] = [
    ({"choices": [{"finish_reason": "stop", "message": {"content": "x"}}]}, "x", "stop", False),
    ({"choices": [{"finish_reason": "length", "message": {"content": "x"}}]}, "x", "length", True),
    ({"message": {"role": "assistant", "content": "x"}}, "x", None, False),
    ({"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"}, "x", "end_turn", False),
    ({"content": "x", "stop_reason": "max_tokens"}, "x", "max_tokens", True),
    ({"output": [{"role": "assistant", "content": "x"}], "status": "completed"}, "x", "completed", False),
    (
        {"output": [{"role": "assistant", "content": "x"}], "status": "incomplete", "incomplete_details": None},
        "x",
        "incomplete",
        True,
    ),
]


@pytest.mark.parametrize(("body", "text", "reason", "cut"), BODIES)
def test_answers_by_their_own_content(body: Any, text: str, reason: str | None, cut: bool) -> None:
    answer = answer_of(body)
    assert answer is not None
    assert (answer.message.role, answer.message.content) == ("assistant", text)
    assert (answer.stop_reason, answer.truncated) == (reason, cut)


@pytest.mark.parametrize("body", [None, [], {}, {"choices": []}, {"error": {}}, {"output": []}, {"candidates": [{}]}])
def test_a_body_without_an_assistant_is_no_answer(body: Any) -> None:
    assert answer_of(body) is None


@pytest.mark.parametrize(
    ("items", "is_chat"),
    [([1], True), ([{"role": "critic"}], True), ({}, True), (None, False), ([{"type": "mystery"}], False)],
)
def test_what_is_no_conversation_says_so(items: Any, is_chat: bool) -> None:
    with pytest.raises(WireError):
        history_of(items, None, None, is_chat)


def function(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "bash", "arguments": "{}"}}


def shape(items: list[Any]) -> list[tuple[str, list[str], Any]]:
    paired = pair([m for _, m in history_of(items, None, None, True)])
    return [(m.role, [c.id for c in m.tool_calls], m.content) for m in paired.messages]


def test_parallel_calls_written_down_one_by_one_are_one_turn() -> None:
    items = [
        {"role": "assistant", "content": "both", "tool_calls": [function("a")]},
        {"role": "assistant", "content": None, "tool_calls": [function("b")]},
        {"role": "tool", "tool_call_id": "b", "content": "B"},
        {"role": "tool", "tool_call_id": "a", "content": "A"},
    ]
    assert shape(items) == [("assistant", ["a", "b"], "both"), ("tool", [], "A"), ("tool", [], "B")]


def test_an_unanswered_call_is_not_joined_with_the_next_turn() -> None:
    items = [
        {"role": "assistant", "content": None, "tool_calls": [function("a")]},
        {"role": "assistant", "content": None, "tool_calls": [function("b")]},
        {"role": "tool", "tool_call_id": "b", "content": "B"},
        {"role": "assistant", "content": "one"},
        {"role": "assistant", "content": "two"},
    ]
    assert [ids for role, ids, _ in shape(items) if role == "assistant"] == [["a"], ["b"], [], []]


def test_neighbouring_assistant_blocks_are_one_turn() -> None:
    items = [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "A"}]},
    ]
    assert shape(items) == [("assistant", ["a"], "I look."), ("tool", [], "A")]


def test_a_string_input_is_one_user_message() -> None:
    assert history_of("go", None, "Be kind.", False) == [
        (-1, Message("system", "Be kind.")),
        (0, Message("user", "go")),
    ]


def test_a_calls_only_response_in_two_dialects_at_once() -> None:
    message = {
        "content": [{"type": "thinking", "thinking": "hm"}],
        "tool_calls": [{"id": "c", "function": {"name": "f"}}],
    }
    answer = answer_of({"choices": [{"message": message}]})
    assert answer is not None
    assert answer.message.reasoning == "hm"
    assert [c.name for c in answer.message.tool_calls] == ["f"]


def test_tools_of_every_dialect() -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    declared = [
        {"type": "function", "function": {"name": "nested", "description": "d", "parameters": schema, "strict": True}},
        {"type": "function", "name": "flat", "parameters": schema},
        {"name": "anthropic", "input_schema": schema, "cache_control": {"type": "ephemeral"}},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
        {"type": "local_shell"},
        "junk",
    ]
    tools = tools_of(declared)
    assert [tool.name for tool in tools] == ["nested", "flat", "anthropic", "web_search"]
    assert [tool.parameters for tool in tools[:3]] == [schema] * 3
    assert tools[3].parameters == {"type": "object", "properties": {}}
    assert [tool.extra for tool in tools] == [
        {"strict": True},
        None,
        None,
        {"type": "web_search_20250305", "max_uses": 8},
    ]
    assert tools_of(None) == tools_of({}) == ()


@pytest.mark.parametrize(
    "call", [{"id": "c"}, {"id": "c", "type": "function"}, {"id": "c", "function": {}, "input": "x"}]
)
def test_a_call_of_nothing_is_no_call(call: dict[str, Any]) -> None:
    with pytest.raises(WireError, match="tool call 0 has neither a function nor a name"):
        history_of([{"role": "assistant", "tool_calls": [call]}], None, None, chat=True)


def test_a_function_without_a_name_is_called_tool() -> None:
    call = {"id": "c", "function": {"arguments": "{}"}}
    ((_, message),) = history_of([{"role": "assistant", "tool_calls": [call]}], None, None, chat=True)
    assert message.tool_calls[0].name == "tool"
