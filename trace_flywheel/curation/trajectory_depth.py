"""Depth by what the work took: evidence from a recorded conversation, which needs no model.

A call *depends* on an earlier one when its arguments hold a piece of text that stood first in an earlier tool's result:
neither in what the user or the system said, nor in an earlier call. A dependent call makes a rollout `multi`, a single
call `single`; several independent calls, or none, prove nothing.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import orjson

from trace_flywheel.records.message import Message, text_of

_PIECE = re.compile(r"\w[\w./@:-]+\w")
"""What can be carried from a result to a call: names, numbers, paths; shorter ones stand anywhere by chance."""


class Evidence(msgspec.Struct, frozen=True):
    calls: int
    dependent_calls: int
    tools: int
    """Distinct names called."""
    turns: int
    """Assistant turns."""

    @property
    def label(self) -> str | None:
        if self.dependent_calls:
            return "multi"
        return "single" if self.calls == 1 else None


def evidence(messages: Sequence[Message]) -> Evidence:
    """What a conversation shows, in its order."""
    told: set[str] = set()
    found: set[str] = set()
    calls = dependent = turns = 0
    names: set[str] = set()
    for message in messages:
        if message.role == "tool":
            found |= set(_PIECE.findall(text_of(message.content))) - told
            continue
        turns += message.role == "assistant"
        for call in message.tool_calls:
            pieces = {piece for text in _leaves(call.arguments) for piece in _PIECE.findall(text)}
            calls += 1
            dependent += not pieces.isdisjoint(found)
            names.add(call.name)
            told |= pieces - found
        told |= set(_PIECE.findall(text_of(message.content))) - found
    return Evidence(calls, dependent, len(names), turns)


def _leaves(arguments: str) -> Iterator[str]:
    try:
        value = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        value = arguments
    yield from _texts(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
