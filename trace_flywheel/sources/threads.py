"""The conversations inside one capture: main thread, sub-agents, helpers, told apart by content.

A call continues a conversation when its request repeats that conversation's last request and adds to it, a leading
system prompt apart. Requests are compared as raw JSON first (a byte prefix); only where bytes differ are items compared
one by one without transport marks (cache hints, item ids, thinking). A call that repeats the beginning but not the end
of a conversation is a re-rendered history: it stays with the conversation but is no prefix of it.

Evidence for whose conversation it is, strongest first: a recorded or inferred purpose; a call whose ACP event names a
parent call; a first user text that is another conversation's spawn prompt; no function tools where others have some.
The main thread is the rest's conversation that declares a spawn tool, opens with the trial's prompt, is longest, ends
last. Nothing is fatal: what cannot be attributed is a thread of its own and listed.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from trace_flywheel.records.message import Message, ToolCall
from trace_flywheel.records.rollout import Purpose
from trace_flywheel.sources.capture import Call, parsed, parsed_tools
from trace_flywheel.sources.wires.exchange import answer_of
from trace_flywheel.sources.wires.openai_chat import tools_of

SPAWN_TOOLS = frozenset({"Agent", "Task"})
PURPOSES: dict[str, Purpose] = {
    "title": "title",
    "summary": "summary",
    "compaction": "compaction",
    "helper": "helper",
    "subagent": "subagent",
}
OPENCODE_SYSTEMS: tuple[tuple[str, Purpose], ...] = (
    ("You are a title generator.", "title"),
    ("Summarize what was done in this conversation.", "summary"),
    ("You are an anchored context summarization assistant", "compaction"),
)
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_TRANSPORT = frozenset(
    {"cache_control", "reasoning_content", "reasoning", "thinking_blocks", "provider_specific_fields", "status"}
)
_THINKING = frozenset({"thinking", "redacted_thinking"})


class Evidence(msgspec.Struct, frozen=True):
    """What else is known of a trial, asked for only where a capture holds several conversations."""

    links: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Tool-call id to the id of the call that spawned the agent which made it."""
    prompts: tuple[str, ...] = ()


class Member(msgspec.Struct, eq=False):
    """A call in its conversation. `items` and `lead`: messages on the wire, and leading system ones among them."""

    call: Call
    items: int
    lead: int
    extends: bool = True


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
    key: tuple[bool, Purpose | None]
    chat: bool
    raw: bytes
    items: list[bytes]
    lead: int


def threads_of(calls: Sequence[Call], agent: str | None, evidence: Callable[[], Evidence]) -> list[Thread]:
    """The conversations of successful calls, the main thread first, then by their first call. May be empty."""
    conversations = _grouped(calls, agent)
    if len(conversations) > 1:
        _label(conversations, evidence())
    return conversations


def _grouped(calls: Sequence[Call], agent: str | None) -> list[Thread]:
    growing: list[_Growing] = []
    threads: list[Thread] = []
    for call in calls:
        key = (call.tools != b"[]", _recorded_purpose(call, agent))
        raw = call.items
        same = [g for g in growing if g.key == key and g.chat == call.chat]
        if not _extend_raw(same, call, raw) and not _extend_items(same, call, raw):
            items = _split(raw, call.line)
            lead = _lead(items)
            thread = Thread([Member(call, len(items), lead)], key[1] or "agent")
            threads.append(thread)
            growing.append(_Growing(thread, key, call.chat, raw, items, lead))
    return threads


def _extend_raw(candidates: list[_Growing], call: Call, raw: bytes) -> bool:
    """The longest conversation whose request is a byte prefix takes the call."""
    best: _Growing | None = None
    for conversation in candidates:
        if raw.startswith(conversation.raw[:-1]) and raw[:1] == b"[":
            after = raw[len(conversation.raw) - 1 :].lstrip()
            whole = after[:1] == b"]" or (after[:1] == b"," and bool(conversation.items))
            if whole and (best is None or len(conversation.raw) > len(best.raw)):
                best = conversation
    if best is None:
        return False
    added = raw[len(best.raw) - 1 :].lstrip()
    if added[:1] == b",":
        best.items += _split(b"[" + added[1:], call.line)
    best.raw = raw
    best.thread.members.append(Member(call, len(best.items), best.lead))
    return True


def _extend_items(candidates: list[_Growing], call: Call, raw: bytes) -> bool:
    """The same by meaning; else a history that is only re-rendered stays with the conversation it shares most with."""
    if not candidates:
        return False
    items = _split(raw, call.line)
    lead = _lead(items)
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
    best.raw, best.items, best.lead = raw, items, lead
    best.thread.members.append(Member(call, len(items), lead))
    return True


def _split(raw: bytes, line: int) -> list[bytes]:
    """The raw items of a conversation; a string is one item."""
    try:
        return [bytes(item) for item in msgspec.json.decode(raw, type=list[msgspec.Raw])]
    except msgspec.DecodeError:
        value = parsed(raw, line)
        return [orjson.dumps(item) for item in value] if isinstance(value, list) else [raw]


def _lead(items: Sequence[bytes]) -> int:
    lead = 0
    for item in items:
        if b'"system"' not in item and b'"developer"' not in item:
            break
        value = orjson.loads(item)
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
        if isinstance(content, list) and len(content) == 1 and set(content[0]) == {"type", "text"}:
            kept["content"] = content[0]["text"]
        return kept
    if isinstance(value, list):
        return [_stripped(v) for v in value if not (isinstance(v, dict) and v.get("type") in _THINKING)]
    return value


def _recorded_purpose(call: Call, agent: str | None) -> Purpose | None:
    """The recorded purpose where it says more than `agent`; inferred for opencode, whose helpers have set prompts."""
    if call.purpose is not None:
        return PURPOSES.get(call.purpose)
    if agent != "opencode":
        return None
    system = _opening(call, {"system", "developer"})
    for start, purpose in OPENCODE_SYSTEMS:
        if any(text.startswith(start) for text in system):
            return purpose
    return None if call.tools != b"[]" else "helper"


def _opening(call: Call, roles: set[str]) -> list[str]:
    """The text blocks of the first message in one of these roles, and the whole as one."""
    for item in _split(call.items, call.line):
        value = orjson.loads(item)
        if isinstance(value, str):
            return [value] if "user" in roles else []
        if isinstance(value, dict) and value.get("role") in roles:
            content = value.get("content")
            blocks = [content] if isinstance(content, str) else content if isinstance(content, list) else []
            texts = [b if isinstance(b, str) else b.get("text") for b in blocks if isinstance(b, str | dict)]
            found = [t for t in texts if isinstance(t, str)]
            return [*found, "\n".join(found)]
    return []


def _label(threads: list[Thread], evidence: Evidence) -> None:
    answers = {id(thread): _answers(thread) for thread in threads}
    spawns = [
        (thread, prompt, call)
        for thread in threads
        for message in answers[id(thread)]
        for call in message.tool_calls
        if call.name in SPAWN_TOOLS and (prompt := _spawn_prompt(call))
    ]
    equipped = any(_function_tools(thread) for thread in threads)
    candidates = []
    for thread in threads:
        if thread.purpose != "agent":
            continue
        parent = _spawner(thread, answers[id(thread)], spawns, evidence)
        if parent is not None:
            thread.purpose, thread.spawned_by = "subagent", parent
        elif equipped and not _function_tools(thread):
            thread.purpose = "helper"
        else:
            candidates.append(thread)
    pool = candidates or threads
    main = max(pool, key=lambda thread: _rank(thread, evidence))
    for thread in candidates:
        if thread is not main:
            thread.purpose = "subagent"
            thread.attributed = False
    threads.sort(key=lambda thread: (thread is not main, thread.members[0].call.index))


def _rank(thread: Thread, evidence: Evidence) -> tuple[bool, bool, int, int]:
    texts = {_plain(text) for text in _opening(thread.members[0].call, {"user"})}
    declares = any(name in SPAWN_TOOLS for name in _function_tools(thread))
    prompted = any(_plain(prompt) in texts for prompt in evidence.prompts)
    return declares, prompted, len(thread.members), thread.last.call.index


def _answers(thread: Thread) -> list[Message]:
    found = [answer_of(parsed(member.call.response, member.call.line)) for member in thread.members]
    return [answer.message for answer in found if answer is not None]


def _spawn_prompt(call: ToolCall) -> str:
    value = orjson.loads(call.arguments) if call.parsed else {}
    prompt = value.get("prompt")
    return _plain(prompt) if isinstance(prompt, str) else ""


def _spawner(
    thread: Thread, answers: list[Message], spawns: list[tuple[Thread, str, ToolCall]], evidence: Evidence
) -> str | None:
    """Id of the call that started this conversation."""
    for message in answers:
        for call in message.tool_calls:
            if call.id in evidence.links:
                return evidence.links[call.id]
    texts = {_plain(text) for text in _opening(thread.members[0].call, {"user"})}
    return next((call.id for owner, prompt, call in spawns if owner is not thread and prompt in texts), None)


def _plain(text: str) -> str:
    """Without the harness's reminders and outer blanks."""
    return _REMINDER.sub("", text).strip()


def _function_tools(thread: Thread) -> tuple[str, ...]:
    """Names of tools with a schema: a provider's server-side tool has none."""
    declared = tools_of(parsed_tools(thread.last.call.tools))
    return tuple(t.name for t in declared if t.parameters.get("properties") or not (t.extra or {}).get("type"))
