"""Rows as types: the JSON Schemas of these layouts are generated from them (`flow/schemas.py`), never written by hand.

Models say what a trainer needs; rows may hold more keys. A conversation's own rules (pairing, declared tools) are in
`rules.py`, because no schema can say them.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

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


class RlPromptRow(msgspec.Struct):
    """A task without any answer of a model, and who judges one."""

    prompt: ObjectMessages
    answer: str | None
    """A reference answer, where the source has one."""
    verifier: str | None
    task_id: str
    tools: list[ToolSpec] | None = None


class VerifiersRow(msgspec.Struct):
    """A scored rollout as the verifiers library saves it."""

    example_id: int
    prompt: ObjectMessages
    completion: list[ObjectMessage]
    reward: Number
    metrics: dict[str, Number]
    is_completed: bool
    is_truncated: bool
    info: dict[str, Any]


class VerifiersPromptRow(msgspec.Struct):
    """A task of a verifiers environment."""

    example_id: int
    prompt: ObjectMessages
    answer: str
    """Empty where the source has none."""
    info: dict[str, Any]


class EpisodeResult(msgspec.Struct):
    data: Any
    done: bool
    metadata: dict[str, Any]
    error: str | None


class EpisodeCall(msgspec.Struct):
    tool_name: Name
    arguments: dict[str, Any]
    result: EpisodeResult


class OpenenvEpisodeRow(msgspec.Struct):
    """One collected episode of OpenEnv's harness."""

    episode_id: Name
    messages: ObjectMessages
    reward: Number
    done: bool
    tool_trace: list[EpisodeCall]
    metrics: dict[str, Any]
    verify_metrics: dict[str, Any]
    artifacts: dict[str, Any]
    task: dict[str, Any]
    extra: dict[str, Any]


class AtifCall(msgspec.Struct):
    tool_call_id: Name
    function_name: Name
    arguments: dict[str, Any]


class AtifResult(msgspec.Struct):
    source_call_id: Name
    content: str


class AtifObservation(msgspec.Struct):
    results: list[AtifResult]


class AtifStep(msgspec.Struct):
    step_id: Annotated[int, Meta(ge=1)]
    source: Literal["system", "user", "agent"]
    message: str
    reasoning_content: str | None = None
    tool_calls: list[AtifCall] | None = None
    observation: AtifObservation | None = None


class AtifAgent(msgspec.Struct):
    name: str
    version: str
    model_name: str | None = None


class AtifRow(msgspec.Struct):
    """A trajectory in the Agent Trajectory Interchange Format."""

    schema_version: Literal["ATIF-v1.7"]
    session_id: Name
    agent: AtifAgent
    steps: Annotated[list[AtifStep], Meta(min_length=1)]
    final_metrics: dict[str, Any]


class TextObservation(msgspec.Struct, tag="text_observation", tag_field="class_"):
    content: str
    source: Literal["user", "environment"]
    tool_call_id: str | None = None


class ApiAction(msgspec.Struct, tag="api_action", tag_field="class_"):
    function: Name
    kwargs: dict[str, Any]
    tool_call_id: Name
    description: str | None = None
    reasoning_content: str | None = None
    reward: Number | None = None


class MessageAction(msgspec.Struct, tag="message_action", tag_field="class_"):
    content: str
    reasoning_content: str | None = None
    reward: Number | None = None


class AdpRow(msgspec.Struct):
    """A trajectory of the Agent Data Protocol."""

    schema_version: Literal["1.3.1"]
    id: Name
    content: Annotated[list[TextObservation | ApiAction | MessageAction], Meta(min_length=1)]
    details: dict[str, Any]
