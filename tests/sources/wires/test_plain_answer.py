"""A plain response says what the reader of all responses says of it; any other is left to that one."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_flywheel.records.message import Message, ToolCall
from trace_flywheel.sources.jsonl import Fault, decode_json
from trace_flywheel.sources.wires.exchange import Answer, answer_of, plain_answer

CALL = {"id": "c1", "type": "function", "function": {"name": "sh", "arguments": '{"n": 1}'}}
WHOLE = {
    "id": "r",
    "object": "chat.completion",
    "created": 1,
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "hi", "tool_calls": [CALL]}, "finish_reason": "length"}
    ],
    "usage": {"prompt_tokens": 400, "cost": 18446744073709551616},
}


def test_a_plain_response_is_told_whole() -> None:
    message = Message("assistant", "hi", tool_calls=(ToolCall("c1", "sh", '{"n": 1}'),))
    usage = {"prompt_tokens": 400, "cost": 18446744073709551616.0}
    assert plain_answer(json.dumps(WHOLE).encode()) == Answer(message, "length", True, usage)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b'{"choices":[]}',
        b'{"choices":[{"message":null}]}',
        b'{"choices":[{"message":{"content":[]}}]}',
        b'{"choices":[{"message":{"refusal":"no"}}]}',
        b'{"choices":[{"message":{"function_call":{"name":"f"}}}]}',
        b'{"choices":[{"message":{"thinking_blocks":[]}}]}',
        b'{"choices":[{"message":{"content":"x"}}],"usageMetadata":{}}',
        b'{"choices":[{"message":{"content":"x"}}],"usage":NaN}',
        b'{"choices":[{"message":{"content":"x"}}],"usage":{"a":1e999}}',
        b'{"choices":[{"message":{"content":"\\ud800"}}]}',
        b'{"choices":[{"message":{"content":"x","tool_calls":[{"id":1}]}}]}',
    ],
)
def test_what_is_not_plain_is_left_to_the_other_reader(data: bytes) -> None:
    assert plain_answer(data) is None


PIECES = st.sampled_from(
    [None, "", "x", "é", "\x00", 0, 2**70, [], {}, [CALL], [{**CALL, "index": 1}], [{**CALL, "id": None}]]
)
MESSAGES = st.dictionaries(
    st.sampled_from(["role", "content", "tool_calls", "reasoning_content", "reasoning", "refusal", "function_call"]),
    PIECES,
)
CHOICES = st.builds(
    lambda message, rest: {**rest, "message": message},
    MESSAGES | st.none(),
    st.dictionaries(st.sampled_from(["index", "finish_reason", "logprobs", "other"]), PIECES | st.just("length")),
)
RESPONSES = st.builds(
    lambda choices, rest: {**rest, "choices": choices},
    st.lists(CHOICES, max_size=2),
    st.dictionaries(
        st.sampled_from(["id", "created", "usage", "usageMetadata", "model", "message", "output", "content"]),
        PIECES | st.just({"prompt_tokens": 1.0}),
    ),
)


@settings(max_examples=400, deadline=None)
@given(RESPONSES)
def test_plain_and_other_reader_agree(response: dict[str, Any]) -> None:
    data = json.dumps(response).encode()
    found = plain_answer(data)
    decoded = decode_json(data)
    assert not isinstance(decoded, Fault)
    assert found is None or found == answer_of(decoded[0])
