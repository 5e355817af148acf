"""OpenAI Responses: a flat list of items, where one turn of the model is several of them.

Consecutive reasoning, message and call items of the assistant are one turn and become one assistant message with all
its calls. `instructions` is the system prompt; a string input is one user message.
"""

from collections.abc import Sequence
from typing import Any

from trace_flywheel.records.message import Message, ToolCall
from trace_flywheel.sources.wires.openai_chat import assistant, message_of
from trace_flywheel.sources.wires.parts import (
    WireError,
    call_of,
    content_of,
    dumped,
    folded_parts,
    freeform,
    joined,
    part_of,
)

CALL_TYPES = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_call", "mcp_call"})
RESULT_TYPES = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})


def messages_of(items: Any, instructions: Any = None) -> tuple[Message, ...]:
    """Canonical messages of an `input` or `output`."""
    system = content_of(instructions)
    head = (Message(role="system", content=system),) if system else ()
    return (*head, *(message for _, message in numbered(items)))


def numbered(items: Any) -> list[tuple[int, Message]]:
    """(index of the first item, message) in order. Raises `WireError` for what is no item list."""
    if isinstance(items, str):
        return [(0, Message(role="user", content=items))]
    if not isinstance(items, list):
        raise WireError(f"input is a {type(items).__name__}")
    messages: list[tuple[int, Message]] = []
    turn: list[Any] = []
    for index, item in enumerate(items):
        if _of_assistant(item):
            turn.append(item)
            continue
        if turn:
            messages.append((index - len(turn), _turn(turn)))
            turn = []
        messages.append((index, _other(item)))
    if turn:
        messages.append((len(items) - len(turn), _turn(turn)))
    return messages


def _of_assistant(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    kind = item.get("type")
    return kind == "reasoning" or kind in CALL_TYPES or item.get("role") in {"assistant", "model"}


def _turn(items: Sequence[dict[str, Any]]) -> Message:
    contents: list[Any] = []
    thoughts: list[str | None] = []
    calls: list[ToolCall] = []
    for item in items:
        kind = item.get("type")
        if kind == "reasoning":
            thoughts += [_text(item.get("content")) or _text(item.get("summary"))]
        elif kind in CALL_TYPES:
            arguments = item.get("arguments", item.get("action", freeform(item)))
            name = item.get("name") or ("local_shell" if kind == "local_shell_call" else None)
            calls.append(call_of(item.get("call_id") or item.get("id"), name, arguments, len(calls)))
        else:
            message = message_of(item)
            contents.append(message.content)
            thoughts.append(message.reasoning)
            calls += message.tool_calls
    parts = [part_of(part) for c in contents if c is not None for part in (c if isinstance(c, list) else [c])]
    return assistant(folded_parts(parts), joined(*thoughts), tuple(calls))


def _text(value: Any) -> str | None:
    return joined(*(p.get("text") for p in value if isinstance(p, dict))) if isinstance(value, list) else None


def _other(item: Any) -> Message:
    if isinstance(item, dict) and item.get("type") in RESULT_TYPES:
        call_id, output = item.get("call_id"), item.get("output")
        content = content_of(output) if output is None or isinstance(output, str | list) else dumped(output)
        return Message(
            role="tool",
            content="" if content is None else content,
            tool_call_id=call_id if isinstance(call_id, str) and call_id else None,
        )
    if isinstance(item, dict) and "role" not in item:
        raise WireError(f"unknown item type {str(item.get('type'))[:40]!r}")
    return message_of(item)
