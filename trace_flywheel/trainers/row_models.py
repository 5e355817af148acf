"""Rows as types: the JSON Schemas of these layouts are generated from them (`flow/schemas.py`), never written by hand.

Models say what a trainer needs; rows may hold more keys. A conversation's own rules (pairing, declared tools) are in
`rules.py`, because no schema can say them.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Name = Annotated[str, Meta(min_length=1)]
Number = float
Role = Literal["system", "user", "assistant", "tool"]


class TextFunction(msgspec.Struct):
    name: Name
    arguments: str
    """A JSON object as text."""


class TextCall(msgspec.Struct):
    id: Name
    type: Literal["function"]
    function: TextFunction


class ObjectFunction(msgspec.Struct):
    name: Name
    arguments: dict[str, Any]


class ObjectCall(msgspec.Struct):
    id: Name
    type: Literal["function"]
    function: ObjectFunction


class Message(msgspec.Struct):
    """A chat message whose calls have their arguments as text."""

    role: Role
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[TextCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class WeightedMessage(Message):
    weight: Literal[0, 1] | None = None
    """On an assistant message: 0 is context, 1 is trained on."""


class ObjectMessage(msgspec.Struct):
    """A chat message whose calls have their arguments as objects."""

    role: Role
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[ObjectCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class ToolFunction(msgspec.Struct):
    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ToolSpec(msgspec.Struct):
    type: Literal["function"]
    function: ToolFunction


Messages = Annotated[list[Message], Meta(min_length=1)]
ObjectMessages = Annotated[list[ObjectMessage], Meta(min_length=1)]


class VerlFunction(msgspec.Struct):
    name: Name
    description: str
    parameters: str
    """A JSON schema as text: a table has one type for all tools."""


class VerlTool(msgspec.Struct):
    type: Literal["function"]
    function: VerlFunction


class VerlSftRow(msgspec.Struct):
    """A conversation for verl's multi-turn SFT set: every assistant message is trained on."""

    messages: Messages
    tools: list[VerlTool]
    task_id: str | None = None
    row_id: str | None = None


class SkyrlSftRow(msgspec.Struct):
    """A conversation for SkyRL's SFT trainer."""

    messages: Messages
    tools: str
    """A JSON list as text."""
    task_id: str | None = None
    row_id: str | None = None


class SkyrlTokensRow(msgspec.Struct):
    """A tokenised conversation for SkyRL's SFT trainer; both lists have one length."""

    input_ids: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=1)]
    loss_mask: list[Literal[0, 1]]
    task_id: str | None = None


class OpenaiFtRow(msgspec.Struct):
    """An example for OpenAI's fine-tuning of chat models."""

    messages: Annotated[list[WeightedMessage], Meta(min_length=1)]
    tools: Annotated[list[ToolSpec], Meta(min_length=1)] | None = None
    parallel_tool_calls: bool | None = None


class InstructRow(msgspec.Struct):
    """One question and its answer as plain text."""

    instruction: Name
    response: Name
    system: str | None = None
    task_id: str | None = None


class RecordedTurn(msgspec.Struct):
    """A turn as the recorder writes it: a call is its text, and beside it what the text says."""

    role: Name
    content: str
    supervise: bool | UnsetType = UNSET
    """Whether it is learned."""
    input_ids: list[int] | UnsetType = UNSET
    output_ids: list[int] | UnsetType | None = UNSET
    tool_call: dict[str, Any] | UnsetType = UNSET
    tool_result: dict[str, Any] | UnsetType = UNSET


class AtrajSftRow(msgspec.Struct):
    messages: Annotated[list[RecordedTurn], Meta(min_length=1)]
    export: str | UnsetType = UNSET
    """`answer-only` or `trajectory`."""
