"""OpenAI chat messages in the shape that nearly all histories have, decoded straight from their JSON; and responses
with such a message.

Plain: text or nothing as content, calls with their id and function, results with the id of a call, and no other key.
What `openai_chat.message_of` makes of such messages is made here at a third of the cost; any other list is for it.
"""

from typing import Annotated, Literal, NamedTuple

import msgspec

from trace_flywheel.records.message import Message
from trace_flywheel.sources.wires.parts import call_of


class _System(msgspec.Struct, tag_field="role", tag="system", forbid_unknown_fields=True):
    content: str | None = None

    def message(self) -> Message:
        return Message("system", self.content or "")


class _User(msgspec.Struct, tag_field="role", tag="user", forbid_unknown_fields=True):
    content: str | None = None

    def message(self) -> Message:
        return Message("user", self.content or "")


class _Tool(msgspec.Struct, tag_field="role", tag="tool", forbid_unknown_fields=True):
    content: str | None = None
    tool_call_id: str | None = None
    name: str | None = None

    def message(self) -> Message:
        return Message("tool", self.content or "", tool_call_id=self.tool_call_id or None, name=self.name)


class _Function(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: str


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    function: _Function
    type: Literal["function"] = "function"
    index: int | None = None


class _Assistant(msgspec.Struct, tag_field="role", tag="assistant", forbid_unknown_fields=True):
    content: str | None = None
    tool_calls: tuple[_Call, ...] | None = None
    reasoning_content: str | None = None

    def message(self) -> Message:
        return _turn(self)


class _Said(msgspec.Struct, forbid_unknown_fields=True):
    role: str | None = None
    content: str | None = None
    tool_calls: tuple[_Call, ...] | None = None
    reasoning_content: str | None = None
    refusal: None = None
    function_call: None = None


class _Choice(msgspec.Struct, forbid_unknown_fields=True):
    message: _Said
    index: int | None = None
    finish_reason: str | None = None
    logprobs: None = None


class _Response(msgspec.Struct, forbid_unknown_fields=True):
    choices: Annotated[tuple[_Choice, ...], msgspec.Meta(min_length=1)]
    usage: msgspec.Raw = msgspec.Raw(b"null")
    id: str | None = None
    object: str | None = None
    created: int | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None


class Said(NamedTuple):
    """A response: its message, why it ended, and the raw JSON of what it used."""

    message: Message
    reason: str | None
    usage: bytes


_responses = msgspec.json.Decoder(_Response)
_decoder = msgspec.json.Decoder(list[_System | _User | _Tool | _Assistant])


def _turn(said: _Assistant | _Said) -> Message:
    made = said.tool_calls
    calls = [call_of(c.id, c.function.name, c.function.arguments, i) for i, c in enumerate(made)] if made else ()
    return Message("assistant", said.content or None, said.reasoning_content or None, tuple(calls))


def response_of(raw: bytes) -> Said | None:
    """What a raw response says whose first choice is a plain message; None for any other."""
    try:
        response = _responses.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    choice = response.choices[0]
    return Said(_turn(choice.message), choice.finish_reason, bytes(response.usage))


def messages_of(raw: bytes) -> list[Message] | None:
    """The canonical messages of a raw list that holds plain ones only, else None."""
    try:
        return [item.message() for item in _decoder.decode(raw)]
    except (msgspec.DecodeError, RecursionError):
        return None
