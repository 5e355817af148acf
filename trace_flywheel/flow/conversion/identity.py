"""What rollouts and rows are known again by: digests of what they say, never of where they lie."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from trace_flywheel.records.canonical import canonical_arguments
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.trainers.chat import chat_messages


def content_of(rollout: Rollout) -> bytes:
    """Digest of conversation, tools and grade, not of the place."""
    told = (rollout.messages, rollout.tools, rollout.verdict, rollout.reward, rollout.reward_text, rollout.error)
    return _digest(told)


def identity_of_row(messages: Sequence[Message]) -> bytes:
    """Digest of a conversation in the words that every layout has: roles, content, calls by name and arguments."""
    told = []
    for message in chat_messages(messages):
        calls = [call["function"] for call in message.get("tool_calls", ())]
        named = [(call["name"], canonical_arguments(call["arguments"])) for call in calls]
        told.append((message["role"], message["content"], named))
    return _digest(told)


def _digest(told: Any) -> bytes:
    try:
        data = msgspec.msgpack.encode(told)
    except (OverflowError, RecursionError, UnicodeError):  # JSON may hold any integer, at any depth
        data = repr(told).encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=16).digest()
