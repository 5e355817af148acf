"""Rows of whole rollouts and of tasks as types: rl-prompts, verifiers, openenv-episodes, atif and adp.

As in `row_models.py` the schemas are generated from these.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from trace_flywheel.trainers.row_models import Name, Number, ObjectMessage, ObjectMessages, ToolSpec


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
