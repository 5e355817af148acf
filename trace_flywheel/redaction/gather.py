"""What redaction looks at in a rollout, listed in one pass: the values, the names, and what its tokens spell.

The values are those that `fields.visit` hands to `take`, in its order: both walk the rollout the same way. A clean
rollout, which most are, costs this pass and the detectors' and nothing else.
"""

from operator import attrgetter
from typing import Any

from trace_flywheel.records.message import Message, Tool
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.redaction.fields import DATA, TEXTS, TOKEN_KEYS, Owner, is_plain, text_part
from trace_flywheel.redaction.identities import FIELDS

_fields = attrgetter(*FIELDS)
_texts_and_data = attrgetter(*TEXTS, *DATA)
ALTERNATIVES = "top_logprobs"
"""Beside each sampled token, what might have been sampled: a text of its own."""


class Gathered:
    """The parts of one rollout."""

    def __init__(self, rollout: Rollout) -> None:
        self.values: list[Any] = []
        """Every text or plain data, in the order of `fields.visit`."""
        self.names: dict[str, str] = {name: field for name, field in zip(_fields(rollout), FIELDS, strict=True) if name}
        """Every name (ids, agents, tools), with a field in which it stands."""
        self._tokens: list[tuple[dict[str, Any], Owner]] = []
        values, names = self.values, self.names
        names[rollout.source.path] = "source.path"
        self._add_messages(rollout.messages, "message", -1)
        for tool in rollout.tools:
            self._add_tool(tool)
        for i, exchange in enumerate(rollout.exchanges):
            self._add_messages(exchange.messages, "exchange", i)
            for tool in exchange.tools or ():
                self._add_tool(tool)
            if exchange.usage is not None:
                values.append(exchange.usage)
            if (capture := exchange.token_capture) is not None:
                values.append(text_part(capture))
                self._tokens.append((capture, Owner("capture", i)))
            for value in (exchange.model, exchange.spawned_by):
                if value:
                    names[value] = "exchanges"
        values += [value for value in _texts_and_data(rollout) if value is not None]
        values += rollout.step_verdicts or ()
        if rollout.correction is not None:
            values += (rollout.correction.content, rollout.correction.corrected_by)
        if rollout.error is not None:
            values += (rollout.error.category, rollout.error.text)

    def _add_messages(self, messages: tuple[Message, ...], kind: str, exchange: int) -> None:
        add, names = self.values.append, self.names
        for i, message in enumerate(messages):
            content = message.content
            if content.__class__ is str:
                add(content)
            elif content:
                for part in content:
                    add(part["text"] if is_plain(part) else part)  # type: ignore[index, arg-type]  # a list here
            if message.reasoning is not None:
                add(message.reasoning)
            if message.tool_calls:
                for call in message.tool_calls:
                    add(call.arguments)
                    names[call.id] = "tool_calls.id"
                    names[call.name] = "tool_calls.name"
            if message.tool_call_id:
                names[message.tool_call_id] = "tool_call_id"
            if message.name is not None:
                add(message.name)
            if message.extra is not None:
                add(text_part(message.extra))
                self._tokens.append((message.extra, Owner(kind, exchange, i)))

    def _add_tool(self, tool: Tool) -> None:
        self.names[tool.name] = "tools.name"
        if tool.description is not None:
            self.values.append(tool.description)
        if tool.parameters:
            self.values.append(tool.parameters)
        if tool.extra is not None:
            self.values.append(tool.extra)

    def spelled(self) -> list[tuple[str, Owner]]:
        """What the token strings of every message and call spell. Token ids and log-probabilities give nothing."""
        return [
            (text, owner)
            for data, owner in self._tokens
            if not data.keys().isdisjoint(TOKEN_KEYS)
            for key in sorted(data.keys() & TOKEN_KEYS)
            for text in (_spelled(data[key]), _spelled(data[key], ALTERNATIVES))
            if text
        ]


def _spelled(tokens: Any, wanted: str = "", inside: bool = False) -> str:
    """The strings in token lists joined in their order: those under `wanted` only, else all but the alternatives."""
    if isinstance(tokens, str):
        return tokens if inside or not wanted else ""
    if isinstance(tokens, list):
        if tokens and isinstance(tokens[0], int | float):
            return ""
        return "".join(_spelled(item, wanted, inside) for item in tokens)
    if isinstance(tokens, dict):
        return "".join(
            _spelled(item, wanted, inside or name == wanted)
            for name, item in tokens.items()
            if inside or wanted or name != ALTERNATIVES
        )
    return ""
