"""Identity of messages and rollouts by content: what duplicates, groups and pairs compare instead of text.

Attempts that did the same have the same hashes although their call ids differ: ids never count, a tool result is bound
to its call by position. Null, empty and absent text are one, as are spellings of a call's arguments. Reasoning is
apart: it is part of a rollout's content, not of what the conversation said.

What a machine makes up anew for each attempt does not part two attempts either: UUIDs, container ids after a shell
prompt's `@` and date-times in what the model was told (never in what it said) are one mark in context and message
hashes. Without that no two terminal sessions, whose first screen names their host, would share a prompt. Content,
attempt and exact hashes take the text as it is.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import re2

from trace_flywheel.records.canonical import canonical_arguments, canonical_json, canonical_value, content_id, folded
from trace_flywheel.records.message import Message, Tool, text_of
from trace_flywheel.records.rollout import Rollout

_PER_ATTEMPT = re2.compile(
    r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|@[0-9a-f]{12}\b"
    r"|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
)
_LETTERS = {"system": "s", "user": "u", "assistant": "a", "tool": "t"}


def roles(messages: Sequence[Message]) -> str:
    """One letter per message: s, u, a, t."""
    return "".join(_LETTERS[message.role] for message in messages)


def _forms(messages: Sequence[Message], fold: bool = False, compared: bool = False) -> Iterator[list[Any]]:
    """Each message as plain data without ids. `fold` collapses case and white space of its text, `compared` replaces
    what is new in every attempt."""
    open_calls: tuple[str, ...] = ()
    answered = 0
    for message in messages:
        bound: int | None = None
        if message.role == "assistant":
            open_calls, answered = tuple(call.id for call in message.tool_calls), 0
        elif message.role == "tool":
            known = message.tool_call_id in open_calls
            bound = open_calls.index(str(message.tool_call_id)) if known else answered
            answered += 1
        text = canonical_value(text_of(message.content))
        if compared and message.role != "assistant":
            text = _PER_ATTEMPT.sub("<per attempt>", text)
        parts = [p for p in message.content if "text" not in p] if isinstance(message.content, list) else []
        calls = [[call.name, canonical_arguments(call.arguments)] for call in message.tool_calls]
        name = message.name if message.role in {"system", "user"} else None
        yield [message.role, folded(text) if fold else text, parts, calls, bound, bool(message.is_error), name]


def _hash64(form: list[Any]) -> int:
    """Signed, so that an Arrow int64 column holds it."""
    return int.from_bytes(blake2b(canonical_json(form), digest_size=8).digest(), "little", signed=True)


def message_hashes(messages: Sequence[Message]) -> list[int]:
    """A 64-bit hash per message."""
    return [_hash64(form) for form in _forms(messages, compared=True)]


def message_norms(messages: Sequence[Message]) -> list[int]:
    """The same over case-folded, white-space-collapsed text; arguments keep their case, commands depend on it."""
    return [_hash64(form) for form in _forms(messages, fold=True, compared=True)]


def _tool_forms(tools: Sequence[Tool]) -> list[Any]:
    """Schemas that were rebuilt from the calls seen differ between attempts and say nothing of their own."""
    return [[tool.name, tool.description, tool.parameters] for tool in tools if not tool.inferred]


def context_hash(rollout: Rollout) -> str:
    """Tools, and all messages before the first assistant turn: equal where two attempts answered the same."""
    first = next((i for i, m in enumerate(rollout.messages) if m.role == "assistant"), len(rollout.messages))
    return content_id([list(_forms(rollout.messages[:first], compared=True)), _tool_forms(rollout.tools)])


def content_hash(rollout: Rollout) -> str:
    """Messages with their reasoning, and tools, as recorded."""
    reasoning = [message.reasoning or None for message in rollout.messages]
    return content_id([list(_forms(rollout.messages)), reasoning, _tool_forms(rollout.tools)])


def attempt_hash(rollout: Rollout, content: str) -> str:
    """Equal where the same attempt is seen twice: session id, timestamps and `content` (its hash), not the path.

    A rollout that records neither session nor time is known by its address only: the same text in another run may
    well be another attempt (temperature 0), and both count.
    """
    recorded = [rollout.session_id, rollout.started_at, rollout.finished_at]
    identity = recorded if any(recorded) else [rollout.run_id, rollout.trace_id]
    return content_id([identity, content])


def exact_hash(messages: Sequence[Message], tools: Sequence[Tool]) -> str:
    """Of a training row, folded: equal where a trainer would learn the same from two rows.

    Absent masks are the mask that trainers read them as (supervised), so a row without any agrees with one that
    states them.
    """
    masks = [message.train_on is not False for message in messages if message.role == "assistant"]
    reasoning = [folded(message.reasoning or "") for message in messages]
    return content_id([list(_forms(messages, fold=True)), reasoning, masks, _tool_forms(tools)])
