"""Judges that need no model: what the recording itself says about the work, as named signals from 0 (bad) to 1 (good).

A signal is present only where there was something to judge: a rollout without calls has none about calls. They are
secondary scores, never verdicts: a repeated call may be a retry and a failed one the right probe.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema_rs
import orjson

from trace_flywheel.records.canonical import canonical_arguments
from trace_flywheel.records.message import Message, Tool, ToolCall, text_of
from trace_flywheel.records.rollout import Rollout

NAMES = ("arguments_valid", "calls_distinct", "calls_succeeded", "answer_grounded", "ended")
_CHECKABLE = re.compile(r"\d+(?:[.,:/-]\d+)*|[\w.-]*[/_\\][\w./\\-]+|[A-Za-z]+\d\w*")
"""What an answer can get wrong and a tool's output can bear out: numbers, dates, paths, identifiers."""


def signals(rollout: Rollout) -> dict[str, float]:
    """The signals of a rollout, in the order of `NAMES`:

    arguments_valid: share of calls whose arguments are an object that the tool's declared schema takes ·
    calls_distinct: share of calls that do not repeat an earlier one, name and arguments, with the same result ·
    calls_succeeded: share of tool results without an error · answer_grounded: share of the numbers, paths and
    identifiers of the last answer that stood in an earlier message · ended: 1 where the last turn is an answer, 0
    where the recording is cut off or ends in a call, a tool's result or a blank.
    """
    calls = [call for message in rollout.messages for call in message.tool_calls]
    results = [message for message in rollout.messages if message.role == "tool" and message.is_error is not None]
    found: dict[str, float | None] = {
        "arguments_valid": _share(_valid(call, rollout.tools) for call in calls),
        "calls_distinct": _share(_distinct(rollout.messages)),
        "calls_succeeded": _share(not message.is_error for message in results),
        "answer_grounded": _share(_grounded(rollout.messages)),
        "ended": float(_ended(rollout)),
    }
    return {name: value for name, value in found.items() if value is not None}


def _share(answers: Iterator[bool]) -> float | None:
    listed = list(answers)
    return round(sum(listed) / len(listed), 6) if listed else None


def _valid(call: ToolCall, tools: Sequence[Tool]) -> bool:
    if not call.parsed:
        return False
    schema = next((tool.parameters for tool in tools if tool.name == call.name and not tool.inferred), None)
    return schema is None or _takes(schema, orjson.loads(call.arguments))


def _takes(schema: dict[str, Any], value: Any) -> bool:
    try:
        return jsonschema_rs.is_valid(schema, value)
    except ValueError:  # a schema that is none itself accuses nobody
        return True


def _distinct(messages: Sequence[Message]) -> Iterator[bool]:
    answers = {m.tool_call_id: text_of(m.content) for m in messages if m.role == "tool"}
    seen: set[tuple[str, str, str | None]] = set()
    for message in messages:
        for call in message.tool_calls:
            key = (call.name, canonical_arguments(call.arguments), answers.get(call.id))
            yield key not in seen
            seen.add(key)


def _grounded(messages: Sequence[Message]) -> Iterator[bool]:
    """For each checkable piece of the last answer whether an earlier message holds it; none where no tool was used."""
    last = _last_answer(messages)
    if last is None or not any(message.role == "tool" for message in messages[:last]):
        return
    heard = "\n".join(text_of(message.content) for message in messages[:last])
    known = set(_CHECKABLE.findall(heard))
    for piece in dict.fromkeys(_CHECKABLE.findall(text_of(messages[last].content))):
        yield piece in known or piece in heard


def _last_answer(messages: Sequence[Message]) -> int | None:
    last = len(messages) - 1
    return last if messages and messages[last].role == "assistant" and not messages[last].tool_calls else None


def _ended(rollout: Rollout) -> bool:
    last = _last_answer(rollout.messages)
    return last is not None and not rollout.is_truncated and bool(text_of(rollout.messages[last].content).strip())
