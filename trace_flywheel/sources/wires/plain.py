"""OpenAI chat messages in the shape that nearly all histories have, decoded straight from their JSON.

Plain: text or nothing as content, calls with their id and function, results with the id of a call, and no other key.
What `openai_chat.message_of` makes of such messages is made here at a third of the cost; any other list is for it.
"""

from typing import Literal

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


class _Assistant(msgspec.Struct, tag_field="role", tag="assistant", forbid_unknown_fields=True):
    content: str | None = None
    tool_calls: tuple[_Call, ...] | None = None
    reasoning_content: str | None = None

    def message(self) -> Message:
        calls = tuple(
            call_of(call.id, call.function.name, call.function.arguments, position)
            for position, call in enumerate(self.tool_calls or ())
        )
        return Message("assistant", self.content or None, self.reasoning_content or None, calls)


_decoder = msgspec.json.Decoder(list[_System | _User | _Tool | _Assistant])


def messages_of(raw: bytes) -> list[Message] | None:
    """The canonical messages of a raw list that holds plain ones only, else None."""
    try:
        return [item.message() for item in _decoder.decode(raw)]
    except (msgspec.DecodeError, RecursionError):
        return None
