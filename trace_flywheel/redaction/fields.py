"""Every place of a rollout where text can stand, in one fixed order.

`visit` rebuilds the rollout from what `take` returns and gives back the same object where nothing changed;
`gather.Gathered` lists the same values in the same order. A value is a string, or plain data (dict, list) that is
looked at as JSON. Ids that pair calls with results, roles, tool names, numbers and token lists are no text.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from trace_flywheel.records.message import Content, Message, Tool, ToolCall
from trace_flywheel.records.rollout import Exchange, Rollout

_NAMES = """token_ids tokens logprobs top_logprobs input_ids output_ids prompt_ids completion_ids prompt_token_ids
    completion_token_ids prompt_logprobs completions"""
TOKEN_KEYS = frozenset(_NAMES.split())
"""Names under which sources keep token ids, token strings and log-probabilities: they spell the text."""


S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


class Owner(NamedTuple):
    """Which text a field belongs to: a message of the main thread, of an exchange, the tools, or the rest."""

    kind: str
    """`message`, `exchange`, `tools`, `exchange_tools`, `capture` (a call's token lists) or `rollout`."""
    exchange: int = -1
    message: int = -1

    def place(self) -> str:
        """For people: `message 3`, `exchange 2 message 0`, `tools`, `rollout`."""
        parts = [f"exchange {self.exchange}"] if self.exchange >= 0 else []
        parts += [f"message {self.message}"] if self.message >= 0 else []
        return " ".join(parts) or self.kind


Take = Callable[[Any, Owner], Any]
"""(value, owner) -> value."""


END = 1 << 60
LAST = END >> 1
"""No rollout has so many values: with none left to take, nobody has to count."""


class Taking:
    """What `visit` takes in the place of each value: the new ones at `touched` places, all others as they are. `owners`
    tells whose the touched ones were. Messages without one are passed by as they are, which is most of a rollout."""

    def __init__(self, values: list[Any], touched: set[int]) -> None:
        self._values = values
        self._touched = sorted(touched)
        self._done = self._place = 0
        self.owners: dict[int, Owner] = {}

    def __call__(self, value: Any, owner: Owner) -> Any:
        place, self._place = self._place, self._place + 1
        if self._done == len(self._touched) or self._touched[self._done] != place:
            return value
        self._done += 1
        self.owners[place] = owner
        return self._values[place]

    def untouched(self) -> int:
        """How many of the next values stay."""
        return (self._touched[self._done] if self._done < len(self._touched) else END) - self._place

    def skip(self, number: int) -> None:
        """Pass by values that stay."""
        self._place += number


TEXTS = ("stop_reason", "verdict_text", "reward_text")
DATA = ("sampling", "rewards", "reward_vector", "scoring", "token_usage", "metadata")


def is_plain(part: dict[str, Any]) -> bool:
    return part.keys() <= {"type", "text"} and isinstance(part.get("text"), str)


def text_part(data: dict[str, Any]) -> dict[str, Any]:
    """Data without its token lists, which are no text; they go when the text they spell is touched."""
    return data if data.keys().isdisjoint(TOKEN_KEYS) else {k: v for k, v in data.items() if k not in TOKEN_KEYS}


def visit(rollout: Rollout, take: Taking) -> Rollout:
    """The rollout with every field replaced by what `take` returns."""
    rest = Owner("rollout")
    changes: dict[str, Any] = {"messages": _messages(rollout.messages, take, "message", -1)}
    if take.untouched() >= LAST:
        return _with(rollout, changes)
    changes["tools"] = _each(rollout.tools, lambda _, t: _tool(t, take, Owner("tools")))
    changes["exchanges"] = _each(rollout.exchanges, lambda i, e: _exchange(e, take, i))
    for name in TEXTS + DATA:
        if (value := getattr(rollout, name)) is not None:
            changes[name] = take(value, rest)
    if rollout.step_verdicts is not None:
        changes["step_verdicts"] = _each(rollout.step_verdicts, lambda _, text: take(text, rest))
    if (correction := rollout.correction) is not None:
        changes["correction"] = _with(
            correction,
            {
                "content": take(correction.content, rest),
                "corrected_by": take(correction.corrected_by, rest),
            },
        )
    if (error := rollout.error) is not None:
        changes["error"] = _with(error, {"category": take(error.category, rest), "text": take(error.text, rest)})
    return _with(rollout, changes)


def _with(struct: S, changes: dict[str, Any]) -> S:
    for name in [name for name, value in changes.items() if value is getattr(struct, name)]:
        del changes[name]
    return msgspec.structs.replace(struct, **changes) if changes else struct


def _each(items: tuple[T, ...], change: Callable[[int, T], T]) -> tuple[T, ...]:
    changed = tuple(change(i, item) for i, item in enumerate(items))
    return changed if any(a is not b for a, b in zip(items, changed, strict=True)) else items


def _messages(messages: tuple[Message, ...], take: Taking, kind: str, exchange: int) -> tuple[Message, ...]:
    """Those without a touched value are counted and passed by, all of them at once where no touched one is left."""
    changed: list[Message] | None = None
    passed, left = 0, take.untouched()
    if left >= LAST:
        return messages
    for i, message in enumerate(messages):
        content = message.content
        number = 1 if content.__class__ is str else len(content or ())
        if message.reasoning is not None:
            number += 1
        if message.name is not None:
            number += 1
        if message.extra is not None:
            number += 1
        if message.tool_calls:
            number += len(message.tool_calls)
        if passed + number <= left:
            passed += number
            continue
        take.skip(passed)
        passed = 0
        if (new := _message(message, take, Owner(kind, exchange, i))) is not message:
            changed = changed or list(messages)
            changed[i] = new
        left = take.untouched()
        if left >= LAST:
            break
    take.skip(passed)
    return messages if changed is None else tuple(changed)


def _message(message: Message, take: Taking, owner: Owner) -> Message:
    content = message.content
    changes: dict[str, Any] = {}
    if isinstance(content, str):
        if (text := take(content, owner)) is not content:
            changes["content"] = text
    elif content:
        changes["content"] = _parts(content, take, owner)
    if message.reasoning is not None:
        changes["reasoning"] = take(message.reasoning, owner)
    if message.tool_calls:
        changes["tool_calls"] = _each(message.tool_calls, lambda _, call: _call(call, take, owner))
    if message.name is not None:
        changes["name"] = take(message.name, owner)
    if message.extra is not None:
        changes["extra"] = _but_tokens(message.extra, take, owner)
    return _with(message, changes)


def _call(call: ToolCall, take: Take, owner: Owner) -> ToolCall:
    return _with(call, {"arguments": take(call.arguments, owner)})


def _parts(parts: list[dict[str, Any]], take: Take, owner: Owner) -> Content:
    changed = [_part(part, take, owner) for part in parts]
    return changed if any(a is not b for a, b in zip(parts, changed, strict=True)) else parts


def _part(part: dict[str, Any], take: Take, owner: Owner) -> dict[str, Any]:
    if is_plain(part):
        text = take(part["text"], owner)
        return part if text is part["text"] else {**part, "text": text}
    changed: dict[str, Any] = take(part, owner)
    return changed


def _but_tokens(data: dict[str, Any], take: Take, owner: Owner) -> dict[str, Any]:
    text = text_part(data)
    changed: dict[str, Any] = take(text, owner)
    return data if changed is text else {key: changed.get(key, data[key]) for key in data}


def _tool(tool: Tool, take: Take, owner: Owner) -> Tool:
    changes: dict[str, Any] = {}
    if tool.description is not None:
        changes["description"] = take(tool.description, owner)
    if tool.parameters:
        changes["parameters"] = take(tool.parameters, owner)
    if tool.extra is not None:
        changes["extra"] = take(tool.extra, owner)
    return _with(tool, changes)


def _exchange(exchange: Exchange, take: Taking, index: int) -> Exchange:
    changes: dict[str, Any] = {}
    if exchange.messages:
        changes["messages"] = _messages(exchange.messages, take, "exchange", index)
    if exchange.tools is not None:
        changes["tools"] = _each(exchange.tools, lambda _, t: _tool(t, take, Owner("exchange_tools", index)))
    if exchange.usage is not None:
        changes["usage"] = take(exchange.usage, Owner("rollout"))
    if exchange.token_capture is not None:
        changes["token_capture"] = _but_tokens(exchange.token_capture, take, Owner("exchange_tools", index))
    return _with(exchange, changes)
