"""From the threads of a capture to a rollout's messages and exchanges.

The main thread's last request holds the history, and its last answer stands in that response alone. Reasoning, token
ids and logprobs of earlier turns exist only in the responses of their own calls, so each answer is laid over the turn
of the history that repeats it: the turn behind the call's request, with the same calls or the same text.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from trace_flywheel.records.message import Message, Tool, text_of
from trace_flywheel.records.rollout import Exchange
from trace_flywheel.sources.capture import Call, parsed, parsed_tools
from trace_flywheel.sources.capture_record import ABSENT, Body
from trace_flywheel.sources.pairing import pair
from trace_flywheel.sources.thread_grouping import Member, Thread
from trace_flywheel.sources.wires.exchange import Answer, answer_of, history_of, plain_answer, plain_history
from trace_flywheel.sources.wires.openai_chat import tools_of
from trace_flywheel.sources.wires.parts import WireError
from trace_flywheel.sources.wires.plain import messages_of as plain_messages

SAMPLING = ("temperature", "top_p", "max_tokens", "reasoning_effort", "thinking")
History = list[tuple[int, Message]]
T = TypeVar("T", int, float)


class Assembled(msgspec.Struct, frozen=True):
    """What a capture says of its rollout."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    exchanges: tuple[Exchange, ...]
    model: str | None
    sampling: dict[str, Any] | None
    stop_reason: str | None
    truncated: bool
    metadata: dict[str, Any]


def assemble(threads: Sequence[Thread], exchanges: bool) -> Assembled:
    """Messages and tools of the main thread (`threads[0]`), and every call as an exchange where they are wanted.

    Raises `WireError` or `RawFaultError` where the main thread cannot be read.
    """
    main = threads[0]
    answers = [_answer(member.call) for member in main.members]
    history = _history(main.last.call)
    turns = _lay_over(history, main, answers)
    conversation = [message for _, message in history]
    final = answers[-1]
    if final is not None:
        conversation.append(_with_tokens(final.message, main.last.call))
        turns[len(main.members) - 1] = sum(m.role == "assistant" for m in conversation) - 1
    paired = pair(conversation)
    last = main.last.call
    metadata: dict[str, Any] = {"exchange_index": last.index}
    repairs = {"ids_renamed": paired.renamed, "results_merged": paired.merged}
    metadata |= {name: count for name, count in repairs.items() if count}
    if paired.orphans:
        # The turn that called is lost: no row can be made of this, but the attempt was graded and its calls are whole.
        metadata["orphan_results"] = list(paired.orphans)
    if final is None:
        metadata["no_answer"] = True
    if loose := [t.members[0].call.index for t in threads if not t.attributed]:
        metadata["unattributed_threads"] = loose
    told: list[Exchange] = []
    if exchanges:
        told = _main_exchanges(main, answers, turns, paired.messages)
        for number, thread in enumerate(threads[1:], start=1):
            for member in thread.members:
                try:
                    told.append(_own(member, number, thread, _answer(member.call)))
                except WireError as error:
                    # A side conversation in an unknown shape is no reason to lose a graded trial.
                    metadata.setdefault("unreadable_exchanges", {})[str(member.call.index)] = str(error)
        told.sort(key=lambda exchange: exchange.index)
    return Assembled(
        messages=paired.messages,
        tools=_tools(last.tools),
        exchanges=tuple(told),
        model=last.body.model if isinstance(last.body.model, str) else None,
        sampling=_sampling(last.body),
        stop_reason=final.stop_reason if final is not None else None,
        truncated=final is not None and final.truncated,
        metadata=metadata,
    )


@lru_cache(maxsize=64)
def _tools(raw: bytes) -> tuple[Tool, ...]:
    """The tools of a declaration, which repeats from trial to trial."""
    return tools_of(parsed_tools(raw))


def _history(call: Call) -> History:
    body, raw = call.body, call.items
    plain = plain_messages(raw) if call.chat else None
    if plain is not None:
        return plain_history(plain, parsed(body.system, call.line))
    items = parsed(raw, call.line)
    return history_of(items, parsed(body.system, call.line), parsed(body.instructions, call.line), call.chat)


def _answer(call: Call) -> Answer | None:
    return plain_answer(bytes(call.response)) or answer_of(parsed(call.response, call.line))


def _lay_over(history: History, main: Thread, answers: Sequence[Answer | None]) -> dict[int, int]:
    """Merge earlier answers into the history; gives {member: ordinal of its turn among assistant messages}.

    Of several answers to one request the turn is the one that fits; the last wins where more than one does.
    """
    turns: dict[int, int] = {}
    ordinals = [i for i, (_, message) in enumerate(history) if message.role == "assistant"]
    starts = [history[i][0] for i in ordinals]
    for number, (member, answer) in enumerate(zip(main.members[:-1], answers[:-1], strict=True)):
        if answer is None or not member.extends:
            continue
        begins = member.items - member.lead + main.last.lead
        following = bisect_left(starts, begins)
        if following == len(starts) or not _same_turn(history[ordinals[following]][1], answer.message):
            continue
        at = ordinals[following]
        history[at] = (history[at][0], _merged(history[at][1], _with_tokens(answer.message, member.call)))
        turns[number] = following
    return turns


def _same_turn(recorded: Message, answer: Message) -> bool:
    if recorded.tool_calls or answer.tool_calls:
        return [c.id for c in recorded.tool_calls] == [c.id for c in answer.tool_calls]
    return text_of(recorded.content).strip() == text_of(answer.content).strip()


def _merged(recorded: Message, answer: Message) -> Message:
    """The history's turn with what only the response has."""
    new = answer.reasoning or answer.token_ids is not None or answer.logprobs is not None
    if not new and recorded.content is not None and recorded.token_ids is recorded.logprobs is None:
        return recorded
    return msgspec.structs.replace(
        recorded,
        content=recorded.content if recorded.content is not None else answer.content,
        reasoning=answer.reasoning or recorded.reasoning,
        token_ids=answer.token_ids,
        logprobs=answer.logprobs,
    )


def _with_tokens(message: Message, call: Call) -> Message:
    capture = _token_capture(call)
    completions = capture.get("completions") if capture else None
    if not isinstance(completions, list) or not completions or not isinstance(completions[0], dict):
        return message
    ids = _numbers(completions[0].get("token_ids"), int)
    logprobs = _numbers(completions[0].get("logprobs"), float)
    return msgspec.structs.replace(message, token_ids=ids, logprobs=logprobs)


def _numbers(values: Any, kind: type[T]) -> tuple[T, ...] | None:
    """Token ids or logprobs, None unless every one is there."""
    try:
        return msgspec.convert(values, tuple[kind, ...])  # type: ignore[valid-type]  # the parameter is a type at run time
    except msgspec.ValidationError:
        return None


def _token_capture(call: Call) -> dict[str, Any] | None:
    if call.token_capture is ABSENT:
        return None
    value = parsed(call.token_capture, call.line)
    return value if isinstance(value, dict) else None


def _main_exchanges(
    main: Thread, answers: Sequence[Answer | None], turns: dict[int, int], messages: Sequence[Message]
) -> list[Exchange]:
    """Calls that are a prefix of the rollout point into it; the others, and those that had another system prompt,
    carry their own messages."""
    positions = [i for i, message in enumerate(messages) if message.role == "assistant"]
    tools = main.last.call.tools
    told = []
    for number, (member, answer) in enumerate(zip(main.members, answers, strict=True)):
        ordinal = turns.get(number)
        if ordinal is None or not member.is_told_as(main.last):
            told.append(_own(member, 0, main, answer))
            continue
        own_tools = None if member.call.tools == tools else _tools(member.call.tools)
        told.append(_exchange(member.call, 0, main, answer, context=positions[ordinal], tools=own_tools))
    return told


def _own(member: Member, number: int, thread: Thread, answer: Answer | None) -> Exchange:
    messages = [message for _, message in _history(member.call)]
    if answer is not None:
        messages.append(_with_tokens(answer.message, member.call))
    tools = _tools(member.call.tools)
    return _exchange(member.call, number, thread, answer, messages=pair(messages).messages, tools=tools)


def _exchange(
    call: Call,
    number: int,
    thread: Thread,
    answer: Answer | None,
    *,
    context: int | None = None,
    messages: tuple[Message, ...] = (),
    tools: tuple[Tool, ...] | None = None,
) -> Exchange:
    return Exchange(
        index=call.index,
        purpose=thread.purpose,
        status=call.status,
        thread=number,
        context=context,
        messages=messages,
        tools=tools,
        model=call.body.model if isinstance(call.body.model, str) else None,
        spawned_by=thread.spawned_by,
        usage=answer.usage if answer is not None else None,
        token_capture=_token_capture(call),
    )


def _sampling(body: Body) -> dict[str, Any] | None:
    found = {name: value for name in SAMPLING if (value := getattr(body, name)) is not None}
    return found or None
