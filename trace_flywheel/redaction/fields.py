"""Every place of a rollout where text can stand, visited in one fixed order.

`visit` rebuilds the rollout from what `take` returns and gives back the same object where nothing changed. Ids that
pair calls with results, roles, names of tools and files, image data, numbers and token lists are no text.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from trace_flywheel.records.message import Content, Message, Tool, ToolCall
from trace_flywheel.records.rollout import Exchange, Rollout

_NAMES = """token_ids tokens logprobs top_logprobs input_ids output_ids prompt_ids completion_ids prompt_token_ids
    completion_token_ids prompt_logprobs"""
TOKEN_KEYS = frozenset(_NAMES.split())
"""Names under which sources keep token ids, token strings and log-probabilities: they spell the text."""


S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


class Owner(NamedTuple):
    """Which text a field belongs to: a message of the main thread, of an exchange, the tools, or the rest."""

    kind: str
    """`message`, `exchange`, `tools`, `exchange_tools` or `rollout`."""
    exchange: int = -1
    message: int = -1


Take = Callable[[str, Any, Owner], Any]
"""(kind, value, owner) -> value. Kinds: `text` (a string), `json` (a string of JSON), `data` (plain data)."""


def visit(rollout: Rollout, take: Take) -> Rollout:
    """The rollout with every field replaced by what `take` returns."""
    rest = Owner("rollout")
    changes: dict[str, Any] = {
        "messages": _each(rollout.messages, lambda i, m: _message(m, take, Owner("message", -1, i))),
        "tools": _each(rollout.tools, lambda _, t: _tool(t, take, Owner("tools"))),
        "exchanges": _each(rollout.exchanges, lambda i, e: _exchange(e, take, i)),
    }
    for name in ("stop_reason", "verdict_text", "reward_text"):
        if (text := getattr(rollout, name)) is not None:
            changes[name] = take("text", text, rest)
    for name in ("sampling", "rewards", "reward_vector", "scoring", "token_usage", "metadata"):
        if (data := getattr(rollout, name)) is not None:
            changes[name] = take("data", data, rest)
    if rollout.step_verdicts is not None:
        changes["step_verdicts"] = _each(rollout.step_verdicts, lambda _, text: take("text", text, rest))
    if (correction := rollout.correction) is not None:
        changes["correction"] = _with(
            correction,
            {
                "content": take("text", correction.content, rest),
                "corrected_by": take("text", correction.corrected_by, rest),
            },
        )
    if (error := rollout.error) is not None:
        changes["error"] = _with(
            error, {"category": take("text", error.category, rest), "text": take("text", error.text, rest)}
        )
    return _with(rollout, changes)


def _with(struct: S, changes: dict[str, Any]) -> S:
    changed = {name: value for name, value in changes.items() if value is not getattr(struct, name)}
    return msgspec.structs.replace(struct, **changed) if changed else struct


def _each(items: tuple[T, ...], change: Callable[[int, T], T]) -> tuple[T, ...]:
    changed = tuple(change(i, item) for i, item in enumerate(items))
    return changed if any(a is not b for a, b in zip(items, changed, strict=True)) else items


def _message(message: Message, take: Take, owner: Owner) -> Message:
    changes: dict[str, Any] = {}
    content = message.content
    if isinstance(content, str):
        changes["content"] = take("text", content, owner)
    elif content:
        changes["content"] = _parts(content, take, owner)
    if message.reasoning is not None:
        changes["reasoning"] = take("text", message.reasoning, owner)
    if message.tool_calls:
        changes["tool_calls"] = _each(message.tool_calls, lambda _, call: _call(call, take, owner))
    if message.name is not None:
        changes["name"] = take("text", message.name, owner)
    if message.extra is not None:
        changes["extra"] = _but_tokens(message.extra, take, owner)
    return _with(message, changes)


def _call(call: ToolCall, take: Take, owner: Owner) -> ToolCall:
    return _with(call, {"arguments": take("json", call.arguments, owner)})


def _parts(parts: list[dict[str, Any]], take: Take, owner: Owner) -> Content:
    changed = [_part(part, take, owner) for part in parts]
    return changed if any(a is not b for a, b in zip(parts, changed, strict=True)) else parts


def _part(part: dict[str, Any], take: Take, owner: Owner) -> dict[str, Any]:
    if part.keys() <= {"type", "text"} and isinstance(part.get("text"), str):
        text = take("text", part["text"], owner)
        return part if text is part["text"] else {**part, "text": text}
    changed = take("data", part, owner)
    return part if changed is part else dict(changed)


def _but_tokens(data: dict[str, Any], take: Take, owner: Owner) -> dict[str, Any]:
    """Token lists are not text to look through; they go when the text they spell is touched."""
    if data.keys().isdisjoint(TOKEN_KEYS):
        return dict(changed) if (changed := take("data", data, owner)) is not data else data
    text = {key: value for key, value in data.items() if key not in TOKEN_KEYS}
    changed = take("data", text, owner)
    return data if changed is text else {key: changed.get(key, data[key]) for key in data}


def _tool(tool: Tool, take: Take, owner: Owner) -> Tool:
    changes: dict[str, Any] = {"description": take("text", tool.description, owner)}
    if tool.parameters:
        changes["parameters"] = take("data", tool.parameters, owner)
    if tool.extra is not None:
        changes["extra"] = take("data", tool.extra, owner)
    return _with(tool, changes)


def _exchange(exchange: Exchange, take: Take, index: int) -> Exchange:
    changes: dict[str, Any] = {}
    if exchange.messages:
        changes["messages"] = _each(exchange.messages, lambda i, m: _message(m, take, Owner("exchange", index, i)))
    if exchange.tools is not None:
        changes["tools"] = _each(exchange.tools, lambda _, t: _tool(t, take, Owner("exchange_tools", index)))
    if exchange.usage is not None:
        changes["usage"] = take("data", exchange.usage, Owner("rollout"))
    if exchange.token_capture is not None:
        changes["token_capture"] = _capture(exchange.token_capture, take, Owner("exchange_tools", index))
    return _with(exchange, changes)


def _capture(capture: dict[str, Any], take: Take, owner: Owner) -> dict[str, Any]:
    """A token capture without its tokens; `completions` hold them too."""
    text = {key: value for key, value in capture.items() if key not in TOKEN_KEYS and key != "completions"}
    changed = take("data", text, owner)
    return capture if changed is text else {key: changed.get(key, capture[key]) for key in capture}
