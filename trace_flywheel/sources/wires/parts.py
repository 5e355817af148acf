"""What every message dialect shares: text and typed parts, call arguments, and the error for what is no message.

Text parts alone become one text, joined by newlines; a content with anything else stays a list of parts, in order, so
that an image is kept or refused later, never cut here.
"""

import json
from typing import Any

import orjson

from trace_flywheel.records.message import Content, Part, ToolCall

TEXT_TYPES = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal"})


class WireError(ValueError):
    """A message or body that no dialect explains; the text says which."""


def content_of(value: Any) -> Content:
    """Canonical content of a wire content: text, a list of typed parts, or None where there is none."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        raise WireError(f"content is a {type(value).__name__}")
    return folded_parts([part_of(item) for item in value if item is not None])


def folded_parts(parts: list[Part]) -> Content:
    """One text where all parts are text, None where there are none, else the parts."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts) if parts else None
    return parts


def part_of(item: Any) -> Part:
    """One typed part. Cache marks are the transport's, not the conversation's."""
    if isinstance(item, str):
        return {"type": "text", "text": item}
    if not isinstance(item, dict):
        raise WireError(f"content part is a {type(item).__name__}")
    kind = item.get("type")
    if kind in TEXT_TYPES or (kind is None and ("text" in item or isinstance(item.get("content"), str))):
        text = item.get("text") or item.get("refusal") or item.get("content") or ""
        return {"type": "text", "text": text if isinstance(text, str) else dumped(text)}
    part = {key: value for key, value in item.items() if key != "cache_control"}
    part["type"] = kind if isinstance(kind, str) else "unknown"
    return part


def call_of(call_id: Any, name: Any, arguments: Any, position: int) -> ToolCall:
    """A tool call. A missing id is numbered by its position in the message, a missing name reads `tool`."""
    text, parsed = arguments_of(arguments)
    return ToolCall(
        id=call_id if isinstance(call_id, str) and call_id else f"call_{position:06d}",
        name=name if isinstance(name, str) and name else "tool",
        arguments=text,
        parsed=parsed,
    )


def arguments_of(value: Any) -> tuple[str, bool]:
    """(argument text, whether it is a JSON object). Empty and null mean no arguments; an object is written out.

    Text of text (an object encoded twice) is decoded once, to the text of its object.
    """
    if value is None:
        return "{}", True
    if isinstance(value, dict):
        return dumped(value), True
    if not isinstance(value, str):
        return dumped(value), False
    if not value.strip():
        return "{}", True
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value, False
    if isinstance(parsed, str) and parsed.lstrip().startswith("{"):
        inner, is_object = arguments_of(parsed)
        return (inner, True) if is_object else (value, False)
    return ("{}", True) if parsed is None else (value, isinstance(parsed, dict))


def freeform(item: dict[str, Any]) -> Any:
    """The arguments of a call to a tool that takes text, not JSON: its `input`, named."""
    given = item.get("input")
    return {"input": given} if isinstance(given, str) else given


def dumped(value: Any) -> str:
    """JSON text with the separators models are shown, non-ASCII characters as themselves, NaN as null."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(orjson.loads(orjson.dumps(value)), ensure_ascii=False)


def joined(*texts: Any) -> str | None:
    """The non-empty texts joined by newlines, None where there are none."""
    found = [text for text in texts if isinstance(text, str) and text]
    return "\n".join(found) if found else None
