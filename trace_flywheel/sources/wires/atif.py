"""Harbor's Agent Trajectory Interchange Format, 1.2 to 1.8: steps of user, system and agent with observations.

Every call is answered exactly once and no output is cut: where a step records fewer results than calls and does not
say whose they are (terminus-2 sends several commands and sees one screen), the last calls get them in order and the
earlier ones an empty text, marked `extra["observed_with_later_call"]`. An observation of a step without calls is what
the environment said next: a user turn. Steps copied from another trajectory stay as context and never train.

A conversation that was cut by summarisation goes on in `continued_trajectory_ref`; sub-agents' trajectories become one
exchange each, which holds their whole thread.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rollout import Exchange, Purpose
from trace_flywheel.sources.pairing import pair
from trace_flywheel.sources.wires.acp import inferred_tools
from trace_flywheel.sources.wires.atif_shape import Result, Step, trajectory_of
from trace_flywheel.sources.wires.openai_chat import tools_of
from trace_flywheel.sources.wires.parts import WireError, call_of, content_of

SUBAGENTS = "subagent_trajectory_ref"
Load = Callable[[str], Any]
"""The decoded trajectory that a reference names, None where there is none to be read."""


class OrphanedObservationError(WireError):
    """An observation under the id of a call that is not open."""


class _Tokens(msgspec.Struct):
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None


class Conversation(msgspec.Struct, frozen=True):
    """What a trajectory says, its continuations included."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    exchanges: tuple[Exchange, ...]
    agent: str | None
    agent_version: str | None
    model: str | None
    session_id: str | None
    cut: bool
    """A continuation could not be read: the end is missing."""
    lost: tuple[str, ...]
    """Every reference whose file could not be read."""


def conversation_of(document: Any, load: Load, exchanges: bool = True) -> Conversation:
    """The main thread of a trajectory. Raises `WireError` for what is no trajectory or has an orphaned result."""
    first = trajectory_of(document)
    parts, lost = [first], list[str]()
    seen: set[str] = set()
    while (reference := parts[-1].continued_trajectory_ref) and reference not in seen:
        seen.add(reference)
        following = load(reference)
        if following is None:
            lost.append(reference)
            break
        parts.append(trajectory_of(following))
    cut = bool(lost)
    steps = [step for part in parts for step in part.steps]
    messages = _paired(steps)
    made: list[Exchange] = []
    if exchanges:
        made = _own_exchanges(messages, steps)
        made += _subagent_exchanges(steps, load, lost, len(made))
    definitions = next((part.agent.tool_definitions for part in parts if part.agent.tool_definitions), None)
    return Conversation(
        messages=messages,
        tools=tools_of(definitions) or inferred_tools(messages),
        exchanges=tuple(made),
        agent=first.agent.name,
        agent_version=first.agent.version,
        model=first.agent.model_name,
        session_id=first.session_id,
        cut=cut,
        lost=tuple(lost),
    )


def _paired(steps: list[Step]) -> tuple[Message, ...]:
    found = pair([message for step in steps for message in _messages(step)], repair=False)
    if found.orphans:
        raise OrphanedObservationError(f"message {found.orphans[0] + 1}: an observation of no open call")
    return found.messages


def _messages(step: Step) -> Iterator[Message]:
    results = step.observation.results if step.observation else []
    if step.source == "agent":
        calls = tuple(
            call_of(call.tool_call_id, call.function_name, call.arguments, position)
            for position, call in enumerate(step.tool_calls or ())
        )
        yield _assistant(step, calls)
        if calls:
            yield from _answers(step, calls, results)
            return
    else:
        yield Message(step.source, content_of(step.message) or "", extra=_extra(step))
    for result in results:
        if result.content:
            yield Message("user", content_of(result.content), extra=_result_extra(result))


def _assistant(step: Step, calls: tuple[ToolCall, ...]) -> Message:
    extra = _extra(step) or {}
    try:
        tokens = msgspec.convert(step.metrics or {}, _Tokens)
    except msgspec.ValidationError:
        tokens = _Tokens()
    if prompt := (step.metrics or {}).get("prompt_token_ids"):
        extra["prompt_token_ids"] = prompt
    if call_extras := {
        call.id: kept.extra for call, kept in zip(calls, step.tool_calls or (), strict=False) if kept.extra
    }:
        extra["tool_calls"] = call_extras
    return Message(
        "assistant",
        content_of(step.message) or None,
        reasoning=step.reasoning_content or None,
        tool_calls=calls,
        train_on=False if step.is_copied_context else None,
        token_ids=tokens.completion_token_ids,
        logprobs=tokens.logprobs,
        extra=extra or None,
    )


def _answers(step: Step, calls: tuple[ToolCall, ...], results: list[Result]) -> Iterator[Message]:
    """One result per call. Those without an id are the last unanswered calls', in order."""
    named = [result for result in results if result.source_call_id]
    unnamed = [result for result in results if not result.source_call_id]
    answered = {result.source_call_id for result in named}
    waiting = [call for call in calls if call.id not in answered]
    for result in named:
        yield _answer(result, str(result.source_call_id))
    if unnamed and not waiting:
        # Every call has its answer: what else was observed is what the environment said next.
        for result in unnamed:
            yield Message("user", content_of(result.content) or "", extra=_result_extra(result))
        return
    silent = waiting[: max(0, len(waiting) - len(unnamed))] if unnamed else []
    for call in silent:
        yield Message("tool", "", tool_call_id=call.id, extra={"observed_with_later_call": True})
    for result, call in zip(unnamed, [*waiting[len(silent) :], *(waiting[-1:] * len(unnamed))], strict=False):
        yield _answer(result, call.id)


def _answer(result: Result, call_id: str) -> Message:
    return Message("tool", content_of(result.content) or "", tool_call_id=call_id, extra=_result_extra(result))


def _result_extra(result: Result) -> dict[str, Any] | None:
    extra = dict(result.extra or {})
    if result.subagent_trajectory_ref:
        extra[SUBAGENTS] = msgspec.to_builtins(result.subagent_trajectory_ref)
    return extra or None


def _extra(step: Step) -> dict[str, Any] | None:
    extra = dict(step.extra or {})
    if step.timestamp:
        extra["timestamp"] = step.timestamp
    if step.is_copied_context:
        extra["copied_context"] = True
    if not step.tool_calls and step.observation:
        # A result without content becomes no message of its own.
        for result in step.observation.results:
            extra |= {} if result.content else _result_extra(result) or {}
    return extra or None


def _own_exchanges(messages: tuple[Message, ...], steps: list[Step]) -> list[Exchange]:
    """The main thread's own calls, up to the first summary: behind it the prompt is not what the steps show."""
    agent_steps = [step for step in steps if step.source == "agent"]
    turns = [position for position, message in enumerate(messages) if message.role == "assistant"]
    summaries = (i for i, m in enumerate(messages) if m.role == "system" and SUBAGENTS in (m.extra or {}))
    end = next(summaries, len(messages))
    made = []
    for index, (position, step) in enumerate(zip(turns, agent_steps, strict=True)):
        if position < end and not step.is_copied_context:
            made.append(Exchange(index, context=position, model=step.model_name, usage=_usage(step.metrics)))
    return made


def _usage(metrics: dict[str, Any] | None) -> dict[str, Any] | None:
    return {key: value for key, value in (metrics or {}).items() if not isinstance(value, list)} or None


def _subagent_exchanges(steps: list[Step], load: Load, lost: list[str], first: int) -> list[Exchange]:
    made: list[Exchange] = []
    for step in steps:
        for result in step.observation.results if step.observation else ():
            for reference in result.subagent_trajectory_ref or ():
                document = load(reference.trajectory_path) if reference.trajectory_path else None
                if document is None:
                    lost.append(reference.trajectory_path or reference.session_id or "sub-agent")
                    continue
                purpose: Purpose = "compaction" if step.source == "system" else "subagent"
                found = trajectory_of(document)
                made.append(
                    Exchange(
                        first + len(made),
                        purpose=purpose,
                        thread=len(made) + 1,
                        messages=_paired(found.steps),
                        model=found.agent.model_name,
                        spawned_by=result.source_call_id,
                    )
                )
    return made
