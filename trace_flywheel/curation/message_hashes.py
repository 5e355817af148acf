"""Identity of messages and rollouts by content: what duplicates, groups and pairs compare instead of text.

Attempts that did the same have the same hashes although their call ids differ: ids never count, a tool result is bound
to its call by position. Null, empty and absent text are one, as are spellings of a call's arguments. Reasoning is
apart: it is part of a rollout's content, not of what the conversation said.

What a machine makes up anew for each attempt does not part two attempts either: UUIDs, container ids after a shell
prompt's `@` and date-times in what the model was told (never in what it said) are one mark in context and message
hashes. Without that no two terminal sessions, whose first screen names their host, would share a prompt. Content,
attempt and exact hashes take the text as it is.

Each text is normalised, masked, folded and hashed once, as bytes; the hashes of a conversation are hashes of those.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson
import re2

from trace_flywheel.curation.folding import Folded, folded_texts
from trace_flywheel.records.canonical import (
    canonical_arguments,
    canonical_json,
    canonical_value,
    content_id,
    folded,
)
from trace_flywheel.records.message import Message, Tool, text_of
from trace_flywheel.records.rollout import Rollout

_PER_ATTEMPT = re2.compile(
    rb"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    rb"|@[0-9a-f]{12}\b"
    rb"|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
)
_LETTERS = {"system": "s", "user": "u", "assistant": "a", "tool": "t"}
_ID_BYTES = 16


def roles(messages: Sequence[Message]) -> str:
    """One letter per message: s, u, a, t."""
    return "".join(_LETTERS[message.role] for message in messages)


class Conversation:
    """The hashes of messages and the tools they were given."""

    def __init__(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> None:
        self._messages = messages
        # Schemas that were rebuilt from the calls seen differ between attempts and say nothing of their own.
        self._tools = canonical_json([[t.name, t.description, t.parameters] for t in tools if not t.inferred])
        self._rests = _rests(messages)
        self._texts = [_bytes(m.content if isinstance(m.content, str) else text_of(m.content)) for m in messages]

    @cached_property
    def hashes(self) -> list[int]:
        """A 64-bit hash per message; signed, so that an Arrow int64 column holds it."""
        return _signed(self._compared)

    @cached_property
    def norms(self) -> list[int]:
        """The same over case-folded, white-space-collapsed text; arguments keep their case, commands depend on it."""
        if not (masked := self._masked):
            return _signed(self._folded)
        digests = self._folded.copy()
        texts = folded_texts([self._told[i] for i in masked]).texts
        for i, digest in zip(masked, _digests([self._rests[i] for i in masked], texts), strict=True):
            digests[i] = digest
        return _signed(digests)

    @cached_property
    def context(self) -> str:
        """Tools, and all messages before the first assistant turn: equal where two attempts answered the same."""
        first = next((i for i, m in enumerate(self._messages) if m.role == "assistant"), len(self._messages))
        return _id([*self._compared[:first], self._tools])

    @cached_property
    def content(self) -> str:
        """Messages with their reasoning, and tools, as recorded."""
        reasoning = canonical_json([m.reasoning or None for m in self._messages])
        return _id([*self._plain, reasoning, self._tools])

    def exact(self, masks: Sequence[bool]) -> str:
        """Of a training row, folded: equal where a trainer would learn the same from two rows.

        `masks` are those of the assistant turns (`masks_of`).
        """
        reasoning = [folded(canonical_value(m.reasoning)) if m.reasoning else "" for m in self._messages]
        return _id([*self._folded, orjson.dumps([reasoning, list(masks)]), self._tools])

    @cached_property
    def _fold(self) -> Folded:
        return folded_texts(self._texts)

    @cached_property
    def _told(self) -> list[bytes]:
        return _told(self._messages, self._texts, self._fold.made_up)

    @cached_property
    def _plain(self) -> list[bytes]:
        return _digests(self._rests, self._texts)

    @cached_property
    def _masked(self) -> list[int]:
        """Messages of which something is made up for each attempt."""
        return [i for i, (text, told) in enumerate(zip(self._texts, self._told, strict=True)) if told is not text]

    @cached_property
    def _compared(self) -> list[bytes]:
        if not (masked := self._masked):
            return self._plain
        digests = self._plain.copy()
        found = _digests([self._rests[i] for i in masked], [self._told[i] for i in masked])
        for i, digest in zip(masked, found, strict=True):
            digests[i] = digest
        return digests

    @cached_property
    def _folded(self) -> list[bytes]:
        return _digests(self._rests, self._fold.texts)


def fold_together(conversations: Sequence[Conversation]) -> None:
    """Fold the texts of several in one call, where each would do it by itself when it is asked."""
    texts, made_up = folded_texts([text for one in conversations for text in one._texts])
    end = 0
    for one in conversations:
        start, end = end, end + len(one._texts)
        one._fold = Folded(texts[start:end], made_up[start:end])


def masks_of(messages: Sequence[Message]) -> list[bool]:
    """Which assistant turns train. An absent mask is the mask that trainers read it as: supervised."""
    return [message.train_on is not False for message in messages if message.role == "assistant"]


def content_hash(rollout: Rollout) -> str:
    """Of a rollout as recorded."""
    return Conversation(rollout.messages, rollout.tools).content


def exact_hash(messages: Sequence[Message], tools: Sequence[Tool]) -> str:
    """Of a training row with its own masks."""
    return Conversation(messages, tools).exact(masks_of(messages))


def attempt_hash(rollout: Rollout, content: str) -> str:
    """Equal where the same attempt is seen twice: session id, timestamps and `content` (its hash), not the path.

    A rollout that records neither session nor time is known by its address only: the same text in another run may
    well be another attempt (temperature 0), and both count.
    """
    recorded = [rollout.session_id, rollout.started_at, rollout.finished_at]
    identity = recorded if any(recorded) else [rollout.run_id, rollout.trace_id]
    return content_id([identity, content])


def _told(messages: Sequence[Message], texts: Sequence[bytes], made_up: Sequence[bool]) -> list[bytes]:
    """The texts, those that the model was told without what is made up for each attempt; the same objects elsewhere.

    `made_up`: which of them may hold any.
    """
    told = [i for i, marked in enumerate(made_up) if marked and messages[i].role != "assistant"]
    known = list(texts)
    # No match spans a line, and mostly there is none at all.
    if told and _PER_ATTEMPT.search(b"\n".join([known[i] for i in told])) is not None:
        for i in told:
            if _PER_ATTEMPT.search(known[i]):
                known[i] = _PER_ATTEMPT.sub(b"<per attempt>", known[i])
    return known


def _bytes(text: str) -> bytes:
    return (text if text.isascii() else unicodedata.normalize("NFC", text)).encode()


def _rests(messages: Sequence[Message]) -> list[bytes]:
    """What each message says beside its text and without ids, as one JSON array."""
    rests: list[bytes] = []
    open_calls: list[str] = []
    answered = 0
    for message in messages:
        role, content, made = message.role, message.content, message.tool_calls
        bound: int | None = None
        name: str | None = None
        if role == "assistant":
            open_calls, answered = [call.id for call in made], 0
        elif role == "tool":
            known = message.tool_call_id in open_calls
            bound = open_calls.index(str(message.tool_call_id)) if known else answered
            answered += 1
        else:
            name = message.name
        if not made and not isinstance(content, list):
            rests.append(_rest_of_text(role, bound, bool(message.is_error), name))
            continue
        parts = [p for p in content if "text" not in p] if isinstance(content, list) else []
        calls = [[canonical_value(call.name), canonical_arguments(call.arguments)] for call in made]
        known_parts = canonical_value(parts) if parts else parts
        rests.append(_rest(role, known_parts, calls, bound, bool(message.is_error), name))
    return rests


def _rest(role: str, parts: list[Any], calls: list[Any], bound: int | None, is_error: bool, name: str | None) -> bytes:
    form = [role, parts, calls, bound, is_error, canonical_value(name)]
    return orjson.dumps(form, option=orjson.OPT_SORT_KEYS)


@lru_cache(maxsize=256)
def _rest_of_text(role: str, bound: int | None, is_error: bool, name: str | None) -> bytes:
    """Of a message that is text alone: most are, and have few forms."""
    return _rest(role, [], [], bound, is_error, name)


def _digests(rests: Iterable[bytes], texts: Iterable[bytes]) -> list[bytes]:
    # A JSON array ends where it says, so what follows it needs no mark.
    return [blake2b(rest + text, digest_size=_ID_BYTES).digest() for rest, text in zip(rests, texts, strict=True)]


def _signed(digests: Sequence[bytes]) -> list[int]:
    """The first 64 bits of each."""
    numbers: list[int] = np.frombuffer(b"".join(digests), dtype="<i8")[:: _ID_BYTES // 8].tolist()
    return numbers


def _id(pieces: Iterable[bytes]) -> str:
    """Hex; the pieces are digests of one length, then JSON arrays."""
    return blake2b(b"".join(pieces), digest_size=_ID_BYTES).hexdigest()
