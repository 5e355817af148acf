"""The shapes of rows of training data that exists already.

Rows of `messages`; of `conversations` with `from` and `value` (ShareGPT); of `prompt` with `completion` or `response`;
of `instruction`, with an `input` to it or without, and `response` or `output` (Alpaca).
"""

from typing import Any

from trace_flywheel.records.message import Message, Role, Tool
from trace_flywheel.sources.wires.openai_chat import messages_of, tools_of
from trace_flywheel.sources.wires.parts import WireError

Conversation = tuple[tuple[Message, ...], tuple[Tool, ...]]
SHAPES = 2
"""Goes up when a row is read otherwise than before: indexes made until then are of another key."""
PAIRS = (("prompt", "completion"), ("prompt", "response"), ("instruction", "response"), ("instruction", "output"))
SPEAKERS: dict[str, Role] = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "system": "system",
}
"""ShareGPT's names; a row with another one is of no known shape."""


def conversation_of(value: Any) -> Conversation | None:
    """Messages and tools of a row; None for a row of no known shape."""
    if not isinstance(value, dict):
        return None
    tools = tools_of(value.get("tools") or value.get("tool_defs"))
    try:
        if isinstance(value.get("messages"), list):
            return messages_of(value["messages"]), tools
        if isinstance(value.get("conversations"), list):
            turns = tuple(_turn(one) for one in value["conversations"])
            return ((*_system(value), *turns), tools) if turns else None
        for asked, said in PAIRS:
            question, answer = value.get(asked), value.get(said)
            if isinstance(question, str) and isinstance(answer, str):
                more = value.get("input") if asked == "instruction" else None
                question = f"{question}\n\n{more}" if isinstance(more, str) and more.strip() else question
                return (Message("user", question), Message("assistant", answer)), tools
            if isinstance(question, list) and isinstance(answer, list):
                return messages_of([*question, *answer]), tools
    except WireError:
        return None
    return None


def _turn(turn: Any) -> Message:
    """One turn of ShareGPT. Raises `WireError` for one of no known shape."""
    role = SPEAKERS.get(str(turn.get("from"))) if isinstance(turn, dict) else None
    if role is None or not isinstance(turn.get("value"), str):
        raise WireError("conversations: a turn is {from, value}")
    return Message(role, turn["value"])


def _system(row: dict[str, Any]) -> tuple[Message, ...]:
    said = row.get("system")
    return (Message("system", said),) if isinstance(said, str) and said else ()
