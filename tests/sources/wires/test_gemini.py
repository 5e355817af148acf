import json

import pytest

from trace_flywheel.sources.wires.exchange import answer_of
from trace_flywheel.sources.wires.gemini import unwrapped


def test_results_carry_their_id_where_there_is_one() -> None:
    part = {"functionResponse": {"id": "f1", "name": "shell", "response": {"output": "a.py"}}}
    request = {"contents": [{"role": "user", "parts": [part, {"text": "go on"}]}]}
    told = unwrapped([{"role": "user", "content": json.dumps(request)}])
    assert told is not None
    assert told["messages"] == [
        {"role": "tool", "tool_call_id": "f1", "content": "a.py"},
        {"role": "user", "content": [{"type": "text", "text": "go on"}]},
    ]
    assert told["tools"] == []


@pytest.mark.parametrize("content", ["go", '{"a": 1}', '{"contents": 1}', '{"contents"', ["x"], None])
def test_any_other_message_is_left_alone(content: object) -> None:
    assert unwrapped([{"role": "user", "content": content}]) is None


def test_a_conversation_of_several_messages_is_no_envelope() -> None:
    message = {"role": "user", "content": '{"contents": []}'}
    assert unwrapped([message, message]) is None
    assert unwrapped("x") is None


def test_an_answer_at_the_limit_is_truncated() -> None:
    answer = answer_of({"candidates": [{"content": {"parts": [{"text": "cut o"}]}, "finishReason": "MAX_TOKENS"}]})
    assert answer is not None
    assert (answer.message.content, answer.truncated) == ("cut o", True)
