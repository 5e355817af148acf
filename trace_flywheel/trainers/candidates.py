"""Which conversations of a rollout become rows of `convert`, and how much of each.

A trial gives its main thread; asked for, every helper and sub-agent thread too, each as its last call left it.
Exchange mode gives every successful recorded call. `last_turn` is BenchFlow's window.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from trace_flywheel.records.message import Message, text_of
from trace_flywheel.records.rollout import Exchange, Rollout
from trace_flywheel.trainers.layout import Candidate

SUCCESS = 200
HARNESS_NOTE = re.compile(r"\s*(<system-reminder>.*?</system-reminder>\s*)+", re.DOTALL)


class Choice(msgspec.Struct, frozen=True):
    """What the user asked `convert` for."""

    row_mode: Literal["trial", "exchange"] = "trial"
    context: Literal["full", "last-turn"] = "full"
    helpers: bool = False
    subagents: bool = False

    def wants(self, purpose: str) -> bool:
        """Whether calls of this purpose give rows."""
        if purpose == "agent":
            return True
        return self.subagents if purpose == "subagent" else self.helpers


def candidates(rollout: Rollout, choice: Choice) -> Iterator[Candidate]:
    """The conversations, in the order of their calls; the main thread of a trial first."""
    calls = [e for e in rollout.exchanges if e.status in (None, SUCCESS) and choice.wants(e.purpose)]
    if choice.row_mode == "trial":
        last = {e.thread: e for e in calls}
        main = last.pop(0, None)
        yield _windowed(_main_thread(rollout, main), choice)
        calls = sorted(last.values(), key=lambda e: e.index)
    for call in calls:
        candidate = msgspec.structs.replace(_of_call(rollout, call), thread_end=choice.row_mode == "trial")
        yield _windowed(candidate, choice)


def _main_thread(rollout: Rollout, last: Exchange | None) -> Candidate:
    return Candidate(
        rollout.messages,
        rollout.tools,
        exchange_index=last.index if last else (rollout.metadata or {}).get("exchange_index"),
        model=(last.model if last else None) or rollout.request_model or rollout.model,
        thread_end=last is not None,
    )


def _of_call(rollout: Rollout, call: Exchange) -> Candidate:
    messages = call.messages if call.context is None else rollout.messages[: call.context + 1]
    return Candidate(
        messages,
        rollout.tools if call.tools is None else call.tools,
        exchange_index=call.index,
        purpose=call.purpose,
        model=call.model or rollout.request_model or rollout.model,
        spawned_by=call.spawned_by,
    )


def _windowed(candidate: Candidate, choice: Choice) -> Candidate:
    if choice.context == "full":
        return candidate
    return msgspec.structs.replace(candidate, messages=last_turn(candidate.messages))


def last_turn(messages: Sequence[Message]) -> tuple[Message, ...]:
    """From the last user turn that an assistant turn follows, to the end; the whole where there is none.

    As in BenchFlow a late system turn counts as the user's. A turn that holds nothing but the harness's
    `<system-reminder>` notes does not: it is no task, and its window would be an answer without a question.
    """
    answered = False
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if message.role == "assistant":
            answered = True
        elif answered and _opens_a_turn(message, position):
            first = msgspec.structs.replace(message, role="user")
            return (first, *messages[position + 1 :])
    return tuple(messages)


def _opens_a_turn(message: Message, position: int) -> bool:
    if message.role not in ("user", "system") or (message.role == "system" and position == 0):
        return False
    return HARNESS_NOTE.fullmatch(text_of(message.content)) is None
