"""Both halves of a recorded model call, each read by its own content.

A gateway may record an Anthropic request beside an OpenAI answer, so neither half and no field of one says anything
about the other; even inside a message list every item is told by itself.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from trace_flywheel.records.message import Message
from trace_flywheel.sources.wires import anthropic_messages, gemini, openai_chat, openai_responses, plain
from trace_flywheel.sources.wires.parts import WireError, folded_parts, joined, part_of

CUT = frozenset(
    {"length", "max_tokens", "model_context_window_exceeded", "incomplete", "max_output_tokens", gemini.CUT}
)


class Answer(msgspec.Struct, frozen=True):
    """What the model said. `truncated`: it hit a length limit."""

    message: Message
    stop_reason: str | None = None
    truncated: bool = False
    usage: dict[str, Any] | None = None


def history_of(items: Any, system: Any, instructions: Any, chat: bool) -> list[tuple[int, Message]]:
    """(index of the wire item, message) of a request; -1 is a top-level system prompt.

    `chat` says that the items stood under `messages`. Raises `WireError` for what is no conversation.
    """
    head = [(-1, message) for message in anthropic_messages.system_of(system)]
    if not chat:
        head += [(-1, message) for message in anthropic_messages.system_of(instructions)]
        return head + openai_responses.numbered(items)
    if not isinstance(items, list):
        raise WireError(f"messages is a {type(items).__name__}")
    if any(isinstance(item, dict) and "role" not in item and "type" in item for item in items):
        return head + openai_responses.numbered(items)
    blocks = {index for index, item in enumerate(items) if anthropic_messages.has_blocks(item)}
    for index, item in enumerate(items):
        if index in blocks:
            head += [(index, message) for message in anthropic_messages.message_of(item)]
        else:
            head.append((index, openai_chat.message_of(item)))
    return _whole_turns(head, blocks)


def plain_history(messages: Sequence[Message], system: Any) -> list[tuple[int, Message]]:
    """What `history_of` gives of a request whose items are these plain messages (`plain`)."""
    head = [(-1, message) for message in anthropic_messages.system_of(system)]
    return _whole_turns([*head, *enumerate(messages)], set())


def _whole_turns(history: list[tuple[int, Message]], blocks: set[int]) -> list[tuple[int, Message]]:
    """One assistant message per turn, where a gateway or client wrote a turn down in pieces.

    Neighbouring pieces are one turn in Anthropic's dialect, where roles alternate; in OpenAI's only when both have
    calls and a result for the first stands behind the second, for a call may also be left unanswered.
    """
    whole: list[tuple[int, Message]] = []
    for position, (index, message) in enumerate(history):
        before = whole[-1] if whole else None
        if before is None or before[1].role != "assistant" or message.role != "assistant":
            whole.append((index, message))
            continue
        later = {m.tool_call_id for _, m in history[position + 1 :]} if message.tool_calls else set()
        answered_later = any(call.id in later for call in before[1].tool_calls)
        if before[0] in blocks or index in blocks or answered_later:
            whole[-1] = (before[0], _joined(before[1], message))
        else:
            whole.append((index, message))
    return whole


def _joined(first: Message, second: Message) -> Message:
    contents = [content for content in (first.content, second.content) if content is not None]
    parts = [part_of(part) for c in contents for part in (c if isinstance(c, list) else [c])]
    return msgspec.structs.replace(
        first,
        content=folded_parts(parts),
        reasoning=joined(first.reasoning, second.reasoning),
        tool_calls=(*first.tool_calls, *second.tool_calls),
    )


def plain_answer(raw: bytes) -> Answer | None:
    """What `answer_of` gives of a raw response that is plain (`plain`), else None."""
    said = plain.response_of(raw)
    if said is None:
        return None
    message, reason, used = said
    try:
        usage = orjson.loads(used)
    except orjson.JSONDecodeError:
        return None
    return Answer(message, reason, reason in CUT, usage if isinstance(usage, dict) else None)


def answer_of(body: Any) -> Answer | None:
    """The answer in a response body, None where there is no assistant in it."""
    if not isinstance(body, dict):
        return None
    given = body.get("usage", body.get("usageMetadata"))
    usage = given if isinstance(given, dict) else None
    choices = body.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        inner, reason = choices[0].get("message"), choices[0].get("finish_reason")
    elif isinstance(body.get("message"), dict):
        inner, reason = body["message"], body.get("finish_reason")
    elif (candidate := gemini.answer_item(body)) is not None:
        inner, reason = candidate
    elif isinstance(body.get("output"), list):
        return _responses_answer(body, usage)
    elif body.get("content") is not None:
        inner, reason = {"role": "assistant", "content": body["content"]}, body.get("stop_reason")
    else:
        return None
    if not isinstance(inner, dict):
        return None
    inner = {**inner, "role": "assistant"}
    message = _both(inner) if anthropic_messages.has_blocks(inner) else openai_chat.message_of(inner)
    return Answer(message, reason if isinstance(reason, str) else None, reason in CUT, usage)


def _both(inner: dict[str, Any]) -> Message:
    """An answer with Anthropic blocks, and what OpenAI fields beside them add."""
    message = anthropic_messages.message_of(inner)[0]
    return msgspec.structs.replace(
        message,
        tool_calls=message.tool_calls or openai_chat.calls_of(inner),
        reasoning=message.reasoning or openai_chat.reasoning_of(inner),
    )


def _responses_answer(body: dict[str, Any], usage: dict[str, Any] | None) -> Answer | None:
    turns = [message for _, message in openai_responses.numbered(body["output"]) if message.role == "assistant"]
    if not turns:
        return None
    status, details = body.get("status"), body.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    stop = reason if isinstance(reason, str) else status if isinstance(status, str) else None
    return Answer(turns[-1], stop, status == "incomplete", usage)
