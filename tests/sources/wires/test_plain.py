import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_flywheel.records.message import Message, ToolCall
from trace_flywheel.sources.wires.exchange import history_of, plain_history
from trace_flywheel.sources.wires.plain import messages_of

CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}


def test_a_plain_history_becomes_canonical_messages() -> None:
    items = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "é\ud83d\ude00 \ufffd\u2028"},
        {"role": "assistant", "content": "", "reasoning_content": "Look.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "name": "bash", "content": None},
        {"role": "assistant", "content": "done", "tool_calls": None},
    ]
    assert messages_of(json.dumps(items).encode()) == [
        Message("system", "Be brief."),
        Message("user", "é😀 \ufffd\u2028"),
        Message("assistant", None, "Look.", (ToolCall("c1", "bash", '{"command": "ls"}'),)),
        Message("tool", "", tool_call_id="c1", name="bash"),
        Message("assistant", "done"),
    ]


@pytest.mark.parametrize(
    "raw",
    [
        '"text"',
        '{"role":"user"}',
        '[{"content":"no role"}]',
        '[{"type":"message","role":"user","content":"x"}]',
        '[{"role":"developer","content":"x"}]',
        '[{"role":"user","content":[{"type":"text","text":"parts"}]}]',
        '[{"role":"user","content":"x","cache_control":{}}]',
        '[{"role":"user","name":"ann"}]',
        '[{"role":"assistant","refusal":"no"}]',
        '[{"role":"assistant","reasoning":"hm"}]',
        '[{"role":"assistant","tool_calls":[{"id":null,"function":{"name":"f","arguments":"{}"}}]}]',
        '[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":{}}}]}]',
        '[{"role":"assistant","tool_calls":[{"id":"c","type":"custom","function":{"name":"f","arguments":""}}]}]',
        '[{"role":"tool","tool_call_id":"c","content":"x","is_error":true}]',
        '[{"role":"tool","tool_call_id":1,"content":"x"}]',
        '[{"role":"user","content":"\\ud800"}]',
        '[{"role":"user","content":NaN}]',
        '[{"role":"user","content":"x"',
    ],
)
def test_what_is_not_plain_is_left_to_the_dialects(raw: str) -> None:
    assert messages_of(raw.encode()) is None


@pytest.mark.parametrize(
    "raw",
    [
        '[{"role":"user","content":"a","content":"b"}]',
        '[{"role":"user","role":"assistant","content":"a"}]',
        '[{"content":"a","role":"user","role":"user"}]',
        '[{"role":"assistant","tool_calls":[],"tool_calls":[{"id":"","function":{"name":"","arguments":" "}}]}]',
        "[ ]",
    ],
)
def test_keys_told_twice_and_empty_values_read_as_the_dialects_read_them(raw: str) -> None:
    made = messages_of(raw.encode())
    read = [message for _, message in history_of(orjson.loads(raw), None, None, True)]
    assert made is None or made == read


TEXTS = st.sampled_from(["", " ", "x", "é\n", "{}", '{"a": 1}', '"{}"', "null", "[1]", "{"])
CONTENTS = st.one_of(TEXTS, st.none(), st.just([{"type": "text", "text": "t"}]), st.just({"text": "t"}), st.just(1))
CALLS = st.fixed_dictionaries(
    {"id": TEXTS, "function": st.fixed_dictionaries({"name": TEXTS, "arguments": st.one_of(TEXTS, st.none())})},
    optional={"type": st.sampled_from(["function", "custom"]), "index": st.just(0)},
)
ITEMS = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "assistant", "tool", "tool", "developer", "function"])},
    optional={
        "content": CONTENTS,
        "tool_calls": st.one_of(st.none(), st.lists(CALLS, max_size=2)),
        "tool_call_id": TEXTS,
        "name": TEXTS,
        "reasoning_content": TEXTS,
    },
)
PLAIN = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": TEXTS}),
    st.fixed_dictionaries({"role": st.just("tool"), "content": TEXTS, "tool_call_id": TEXTS}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": TEXTS}, optional={"reasoning_content": TEXTS}),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(PLAIN, PLAIN, ITEMS), max_size=5), st.sampled_from([None, "Be brief."]))
def test_a_history_is_the_same_either_way(items: list[dict[str, Any]], system: str | None) -> None:
    made = messages_of(orjson.dumps(items))
    if made is not None:
        assert plain_history(made, system) == history_of(items, system, None, True)
