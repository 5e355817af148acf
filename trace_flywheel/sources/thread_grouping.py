"""Calls of a capture grouped into conversations by what their requests repeat.

A call continues a conversation when its request repeats that conversation's last request and adds to it, a leading
system prompt apart. Requests are compared as raw JSON first (a byte prefix); only where bytes differ are items compared
one by one without transport marks (cache hints, thinking). A call that repeats the beginning but not the end of a
conversation is a re-rendered history: it stays with the conversation but is no prefix of it. Calls with and without
tools, or with different purposes, never share a conversation.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import orjson

from trace_flywheel.records.rollout import Purpose
from trace_flywheel.sources.capture import Call, parsed

_TRANSPORT = frozenset(
    {"cache_control", "reasoning_content", "reasoning", "thinking_blocks", "provider_specific_fields", "status"}
)
_THINKING = frozenset({"thinking", "redacted_thinking"})
_items = msgspec.json.Decoder(list[msgspec.Raw])


class Member(msgspec.Struct, eq=False):
    """A call in its conversation. `items` and `lead`: messages on the wire, and leading system ones among them."""

    call: Call
    items: int
    lead: int
    head: tuple[bytes, ...] = ()
    """The leading system messages."""
    extends: bool = True

    def is_told_as(self, other: "Member") -> bool:
        """Whether both calls had the same system prompt, transport marks apart."""
        mine, its = self.call.body, other.call.body
        if self.head is other.head and mine.system is its.system and mine.instructions is its.instructions:
            return True
        ours, theirs = self._prompt(), other._prompt()
        return ours == theirs or [_meaning(item) for item in ours] == [_meaning(item) for item in theirs]

    def _prompt(self) -> tuple[bytes, ...]:
        body = self.call.body
        return (*self.head, bytes(body.system), bytes(body.instructions))


class Thread(msgspec.Struct, eq=False):
    """One conversation. `members` are its calls in order; the last one holds the history."""

    members: list[Member]
    purpose: Purpose = "agent"
    spawned_by: str | None = None
    attributed: bool = True

    @property
    def last(self) -> Member:
        return self.members[-1]


class _Growing(msgspec.Struct, eq=False):
    thread: Thread
    key: tuple[bool, Purpose | None, bool]
    """Whether there are tools, the purpose, and whether it is a chat: of all its calls."""
    items: list[bytes]
    lead: int
    head: tuple[bytes, ...]

    def takes(self, call: Call, added: Sequence[bytes]) -> None:
        """A call whose request goes on with these items."""
        self.items += added
        self.thread.members.append(Member(call, len(self.items), self.lead, self.head))


def grouped(calls: Sequence[Call], purpose_of: Callable[[Call], Purpose | None]) -> list[Thread]:
    """The conversations in order of their first calls. Raises `RawFaultError` for a request that cannot be read."""
    growing: list[_Growing] = []
    threads: list[Thread] = []
    for call in calls:
        key = (call.tools != b"[]", purpose_of(call), call.chat)
        same = [g for g in growing if g.key == key]
        if _extend_known(same, call):
            continue
        raw = call.items
        if not _extend_raw(same, call, raw) and not _extend_items(same, call, raw):
            items = split_items(raw, call.line)
            lead = _lead(items, call.line)
            head = tuple(items[:lead])
            thread = Thread([Member(call, len(items), lead, head)], key[1] or "agent")
            threads.append(thread)
            growing.append(_Growing(thread, key, items, lead, head))
    return threads


def _extend_known(candidates: list[_Growing], call: Call) -> bool:
    """The only conversation takes a call that was seen to repeat its last request when it was read."""
    known = call.goes_on
    if known is None or len(candidates) != 1 or candidates[0].thread.last.call.line != known.line:
        return False
    candidates[0].takes(call, split_items(known.added, call.line))
    return True


def _extend_raw(candidates: list[_Growing], call: Call, raw: bytes) -> bool:
    """The longest conversation whose request is a byte prefix takes the call."""
    best: _Growing | None = None
    longest, added = 0, b""
    for conversation in candidates:
        stem = memoryview(conversation.thread.last.call.items)[:-1]
        if not raw.startswith(stem) or raw[:1] != b"[":
            continue
        after = raw[len(stem) :].lstrip()
        whole = after[:1] == b"]" or (after[:1] == b"," and bool(conversation.items))
        if whole and (best is None or len(stem) > longest):
            best, longest, added = conversation, len(stem), after
    if best is None:
        return False
    best.takes(call, split_items(b"[" + added[1:], call.line) if added[:1] == b"," else ())
    return True


def _extend_items(candidates: list[_Growing], call: Call, raw: bytes) -> bool:
    """The same by meaning; else a history that is only re-rendered stays with the conversation it shares most with."""
    if not candidates:
        return False
    items = split_items(raw, call.line)
    lead = _lead(items, call.line)
    best, shared = None, 0
    for conversation in candidates:
        common = _common(conversation.items[conversation.lead :], items[lead:])
        whole = common == len(conversation.items) - conversation.lead
        if whole and common and (best is None or common > shared):
            best, shared = conversation, common
    extends = best is not None
    if best is None and any(_is_assistant(item) for item in items):
        for conversation in candidates:
            common = _common(conversation.items[conversation.lead :], items[lead:])
            if common > shared:
                best, shared = conversation, common
    if best is None:
        return False
    if not extends:
        for member in best.thread.members:
            member.extends = member.extends and member.items - member.lead <= shared
    best.items, best.lead, best.head = items, lead, tuple(items[:lead])
    best.thread.members.append(Member(call, len(items), lead, best.head))
    return True


def split_items(raw: bytes, line: int) -> list[bytes]:
    """The raw items of a conversation; a string is one item."""
    try:
        return [bytes(item) for item in _items.decode(raw)]
    except msgspec.DecodeError:
        value = parsed(raw, line)
        return [orjson.dumps(item) for item in value] if isinstance(value, list) else [raw]


def _lead(items: Sequence[bytes], line: int) -> int:
    """How many system messages stand first."""
    lead = 0
    for item in items:
        if b'"system"' not in item and b'"developer"' not in item:
            break
        value = parsed(item, line)
        if not isinstance(value, dict) or value.get("role") not in {"system", "developer"}:
            break
        lead += 1
    return lead


def _is_assistant(item: bytes) -> bool:
    return b'"assistant"' in item or b'"function_call"' in item


def _common(first: Sequence[bytes], second: Sequence[bytes]) -> int:
    """How many leading items say the same."""
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b and _meaning(a) != _meaning(b):
            break
        count += 1
    return count


def _meaning(item: bytes) -> Any:
    try:
        return _stripped(orjson.loads(item))
    except orjson.JSONDecodeError:
        return item


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {k: _stripped(v) for k, v in value.items() if k not in _TRANSPORT and v is not None}
        content = kept.get("content")
        if isinstance(content, list) and len(content) == 1 and _only_text(content[0]):
            kept["content"] = content[0]["text"]
        return kept
    if isinstance(value, list):
        return [_stripped(v) for v in value if not (isinstance(v, dict) and v.get("type") in _THINKING)]
    return value


def _only_text(part: Any) -> bool:
    return isinstance(part, dict) and part.keys() == {"type", "text"}
