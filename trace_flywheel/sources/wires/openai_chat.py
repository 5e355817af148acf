"""OpenAI chat completions: messages with `tool_calls`, tools under `function`, answers in `choices[0].message`.

Reasoning stands as `reasoning_content`, `reasoning` or LiteLLM's `thinking_blocks`. The legacy `function_call` is one
call without an id; its answer has role `function` and is known by its name.
"""

from collections.abc import Sequence
from typing import Any

from trace_flywheel.records.message import Content, Message, Role, Tool, ToolCall
from trace_flywheel.sources.wires.parts import WireError, call_of, content_of, freeform, joined

ROLES: dict[Any, Role] = {
    None: "user",
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def messages_of(items: Sequence[Any]) -> tuple[Message, ...]:
    """Canonical messages. Raises `WireError` for an item that is no message."""
    return tuple(message_of(item) for item in items)


def message_of(item: Any) -> Message:
    """One canonical message of one item."""
    if not isinstance(item, dict):
        raise WireError(f"message is a {type(item).__name__}")
    role = role_of(item.get("role"))
    content = content_of(item.get("content"))
    if role == "assistant":
        return assistant(content if content is not None else item.get("refusal"), reasoning_of(item), calls_of(item))
    name = item.get("name")
    if role == "tool":
        call_id = item.get("tool_call_id")
        error = item.get("is_error")
        return Message(
            role=role,
            content="" if content is None else content,
            tool_call_id=call_id if isinstance(call_id, str) and call_id else None,
            name=name if isinstance(name, str) else None,
            is_error=error if isinstance(error, bool) else None,
        )
    return Message(role=role, content="" if content is None else content, name=name if isinstance(name, str) else None)


def assistant(content: Content, reasoning: str | None, calls: tuple[ToolCall, ...]) -> Message:
    """An assistant message in the one canonical form: absent or empty text is None."""
    return Message(role="assistant", content=content or None, reasoning=reasoning, tool_calls=calls)


def role_of(role: Any) -> Role:
    """The canonical role. Raises `WireError` for one that no dialect has."""
    known = ROLES.get(role) if role is None or isinstance(role, str) else None
    if known is None:
        raise WireError(f"unknown role {str(role)[:40]!r}")
    return known


def reasoning_of(item: dict[str, Any]) -> str | None:
    """The reasoning beside an assistant message, told once where it is recorded twice."""
    for key in ("reasoning_content", "reasoning"):
        if isinstance(item.get(key), str) and item[key]:
            return str(item[key])
    blocks = item.get("thinking_blocks")
    if not isinstance(blocks, list):
        return None
    return joined(*(block.get("thinking") for block in blocks if isinstance(block, dict)))


def calls_of(item: dict[str, Any]) -> tuple[ToolCall, ...]:
    """The calls of an assistant message in order."""
    listed = item.get("tool_calls")
    if listed is not None and not isinstance(listed, list):
        raise WireError(f"tool_calls is a {type(listed).__name__}")
    calls = []
    for position, call in enumerate(listed or ()):
        if not isinstance(call, dict):
            raise WireError(f"tool call is a {type(call).__name__}")
        inner = call.get("function") or call.get("custom") or call
        if inner is call and not call.get("name"):
            raise WireError(f"tool call {position} has neither a function nor a name")
        if not isinstance(inner, dict):
            raise WireError(f"function of a tool call is a {type(inner).__name__}")
        arguments = inner.get("arguments", freeform(inner))
        calls.append(call_of(call.get("id"), inner.get("name"), arguments, position))
    legacy = item.get("function_call")
    if not calls and isinstance(legacy, dict):
        calls.append(call_of(None, legacy.get("name"), legacy.get("arguments"), 0))
    return tuple(calls)


def tools_of(declared: Any, undescribed: str | None = "") -> tuple[Tool, ...]:
    """Tool declarations of any dialect: nested under `function`, flat, or with Anthropic's `input_schema`.

    A declaration without a name is no tool; one without a description has `undescribed`. What is neither name,
    description nor schema stays in `extra`.
    """
    tools = []
    for item in declared if isinstance(declared, list) else ():
        if not isinstance(item, dict):
            continue
        inner = item["function"] if isinstance(item.get("function"), dict) else item
        name = inner.get("name")
        if not isinstance(name, str) or not name:
            continue
        schema = inner.get("parameters") or inner.get("input_schema")
        description = inner.get("description")
        extra = {
            key: value
            for key, value in inner.items()
            if key not in {"name", "description", "parameters", "input_schema", "cache_control"}
            and (key, value) != ("type", "function")
        }
        tools.append(
            Tool(
                name=name,
                description=description if isinstance(description, str) else undescribed,
                parameters=schema if isinstance(schema, dict) else dict(NO_PARAMETERS),
                extra=extra or None,
            )
        )
    return tuple(tools)
