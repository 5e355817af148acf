"""The typed shape of Harbor's Agent Trajectory Interchange Format, 1.2 to 1.8. What it means is `atif`'s."""

from typing import Any, Literal

import msgspec

from trace_flywheel.sources.wires.parts import WireError

VERSIONS = frozenset(f"ATIF-v1.{minor}" for minor in range(2, 9))


class Call(msgspec.Struct):
    function_name: str
    tool_call_id: str | None = None
    arguments: Any = None
    extra: dict[str, Any] | None = None


class Subagent(msgspec.Struct):
    trajectory_path: str | None = None
    session_id: str | None = None
    extra: dict[str, Any] | None = None


class Result(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    source_call_id: str | None = None
    subagent_trajectory_ref: list[Subagent] | None = None
    extra: dict[str, Any] | None = None


class Observation(msgspec.Struct):
    results: list[Result] = []


class Step(msgspec.Struct):
    source: Literal["user", "system", "agent"]
    message: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    tool_calls: list[Call] | None = None
    observation: Observation | None = None
    metrics: dict[str, Any] | None = None
    model_name: str | None = None
    timestamp: str | None = None
    is_copied_context: bool | None = None
    extra: dict[str, Any] | None = None


class Agent(msgspec.Struct):
    name: str | None = None
    version: str | None = None
    model_name: str | None = None
    tool_definitions: list[Any] | None = None


class Trajectory(msgspec.Struct):
    schema_version: str
    steps: list[Step]
    agent: Agent = msgspec.field(default_factory=Agent)
    session_id: str | None = None
    continued_trajectory_ref: str | None = None


def trajectory_of(document: Any) -> Trajectory:
    """The typed trajectory. Raises `WireError` for another shape or version."""
    try:
        found = msgspec.convert(document, Trajectory)
    except msgspec.ValidationError as error:
        raise WireError(f"no ATIF trajectory: {error}") from None
    if found.schema_version not in VERSIONS:
        raise WireError(f"schema_version {found.schema_version!r}; known: {', '.join(sorted(VERSIONS))}")
    return found
