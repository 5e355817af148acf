"""One conversation turn in the shape every reader fills and every trainer layout is made from.

Roles are OpenAI chat roles. Absent text has one form (`None`), a call's arguments keep their original text, and
nothing is dropped on the way in: reasoning, content parts, token ids and logprobs stay on the message.
"""

from typing import Any, Literal

import msgspec

Role = Literal["system", "user", "assistant", "tool"]
Part = dict[str, Any]
Content = str | list[Part] | None


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call the model made. `arguments` is the recorded text; an empty or null one is read as `{}`."""

    id: str
    name: str
    arguments: str = "{}"
    parsed: bool = True
    """False where `arguments` is no JSON object: the text is kept raw and never supervised silently."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn. `content` is text, a list of typed parts, or None; never the word "None"."""

    role: Role
    content: Content = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    is_error: bool | None = None
    """On a tool message: the tool reported a failure."""
    train_on: bool | None = None
    """On an assistant message: supervised or masked. None means nobody decided, which trainers read as supervised."""
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    extra: dict[str, Any] | None = None
    """What the source recorded beside the turn (signatures, input ids) and a layout may want."""


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool the model was offered. `parameters` is a JSON schema."""

    name: str
    description: str | None = ""
    """None only for a declaration read from an existing row, which is written again as it was."""
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    inferred: bool = False
    """True where the schema was rebuilt from the arguments seen, because the source recorded none."""
    extra: dict[str, Any] | None = None


def text_of(content: Content, joiner: str = "\n") -> str:
    """The text of a content: text parts in order, joined; other parts contribute nothing."""
    if content is None or isinstance(content, str):
        return content or ""
    return joiner.join(t for part in content if isinstance(t := part.get("text"), str))


def has_only_text(content: Content) -> bool:
    """Whether `text_of` loses nothing."""
    return not isinstance(content, list) or all(part.get("type", "text") == "text" for part in content)
