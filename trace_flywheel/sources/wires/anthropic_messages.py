"""Anthropic messages: content blocks, calls as `tool_use` in assistant turns, results as `tool_result` in user turns.

A user item with results becomes its tool messages in block order, then one user message of what is left. Redacted
thinking is ciphertext of no use to anyone else and is left out; server-side blocks stay typed parts.
"""

from collections.abc import Sequence
from typing import Any

from trace_flywheel.records.message import Message, Part, ToolCall
from trace_flywheel.sources.wires.openai_chat import assistant, role_of
from trace_flywheel.sources.wires.parts import WireError, call_of, content_of, folded_parts, joined, part_of

BLOCK_TYPES = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"})


def has_blocks(item: Any) -> bool:
    """Whether an item's content can only be Anthropic's."""
    content = item.get("content") if isinstance(item, dict) else None
    return isinstance(content, list) and any(isinstance(b, dict) and b.get("type") in BLOCK_TYPES for b in content)


def messages_of(items: Sequence[Any], system: Any = None) -> tuple[Message, ...]:
    """Canonical messages; `system` is the body's top-level text or text blocks."""
    return (*system_of(system), *(message for item in items for message in message_of(item)))


def system_of(system: Any) -> tuple[Message, ...]:
    """The system message of a body's top-level prompt, none where it is absent."""
    content = content_of(system)
    return (Message(role="system", content=content),) if content else ()


def message_of(item: Any) -> tuple[Message, ...]:
    """The canonical messages of one item. Raises `WireError` for what is no message."""
    if not isinstance(item, dict):
        raise WireError(f"message is a {type(item).__name__}")
    role = role_of(item.get("role"))
    content = item.get("content")
    if not isinstance(content, list):
        text = content_of(content)
        return (assistant(text, None, ()),) if role == "assistant" else (Message(role=role, content=text or ""),)
    blocks = [block if isinstance(block, dict) else part_of(block) for block in content if block is not None]
    if role == "assistant":
        return (_assistant(blocks),)
    results = [block for block in blocks if block.get("type") == "tool_result"]
    rest = [part_of(block) for block in blocks if block.get("type") != "tool_result"]
    tail = (Message(role=role, content=folded_parts(rest)),) if rest else ()
    if not results and not tail:
        return (Message(role=role, content=""),)
    return (*map(_result, results), *tail)


def _assistant(blocks: list[dict[str, Any]]) -> Message:
    parts: list[Part] = []
    calls: list[ToolCall] = []
    for block in blocks:
        kind = block.get("type")
        if kind == "tool_use":
            calls.append(call_of(block.get("id"), block.get("name"), block.get("input"), len(calls)))
        elif kind not in {"thinking", "redacted_thinking"}:
            parts.append(part_of(block))
    reasoning = joined(*(block.get("thinking") for block in blocks if block.get("type") == "thinking"))
    return assistant(folded_parts(parts), reasoning, tuple(calls))


def _result(block: dict[str, Any]) -> Message:
    call_id = block.get("tool_use_id")
    error = block.get("is_error")
    content = content_of(block.get("content"))
    return Message(
        role="tool",
        content="" if content is None else content,
        tool_call_id=call_id if isinstance(call_id, str) and call_id else None,
        is_error=error if isinstance(error, bool) else None,
    )
