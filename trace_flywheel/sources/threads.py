"""The conversations inside one capture: main thread, sub-agents, helpers, told apart by content.

Evidence for whose conversation it is, strongest first: a recorded or inferred purpose; a call whose ACP event names a
parent call; a first user text that is another conversation's spawn prompt; no function tools where others have some.
The main thread is the rest's conversation that declares a spawn tool, opens with the trial's prompt, is longest, ends
last. Nothing is fatal: what cannot be attributed is a thread of its own and marked.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec
import orjson

from trace_flywheel.records.message import Message, ToolCall
from trace_flywheel.records.rollout import Purpose
from trace_flywheel.sources.capture import Call, parsed, parsed_tools
from trace_flywheel.sources.thread_grouping import Thread, grouped, split_items
from trace_flywheel.sources.wires.exchange import answer_of
from trace_flywheel.sources.wires.openai_chat import tools_of
from trace_flywheel.sources.wires.parts import WireError

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
_NEVER = b"no list"
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)


class Evidence(msgspec.Struct, frozen=True):
    """What else is known of a trial, asked for only where a capture holds several conversations."""

    links: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Tool-call id to the id of the call that spawned the agent which made it."""
    prompts: tuple[str, ...] = ()


def threads_of(calls: Sequence[Call], agent: str | None, evidence: Callable[[], Evidence]) -> list[Thread]:
    """The conversations of successful calls, the main thread first, then by their first call. May be empty."""
    conversations = grouped(calls, _Purposes(agent).of)
    if len(conversations) > 1:
        _label(conversations, evidence())
    return conversations


class _Purposes:
    """The recorded purpose where it says more than `agent`; inferred for opencode, whose helpers have set prompts."""

    def __init__(self, agent: str | None) -> None:
        self._inferred = agent == "opencode"
        self._begun = _NEVER, list[str]()
        """A conversation without the byte that closes it, and the system prompt in it: of every one that goes on."""

    def of(self, call: Call) -> Purpose | None:
        if call.purpose is not None:
            return PURPOSES.get(call.purpose)
        if not self._inferred:
            return None
        system = self._system(call)
        for start, purpose in OPENCODE_SYSTEMS:
            if any(text.startswith(start) for text in system):
                return purpose
        return None if call.tools != b"[]" else "helper"

    def _system(self, call: Call) -> list[str]:
        (begun, system), raw = self._begun, call.items
        if not raw.startswith(begun) or raw[len(begun) : len(begun) + 1] not in (b",", b"]"):
            system = _opening(call, {"system", "developer"})
            if system:
                self._begun = raw[:-1], system
        return system


def _opening(call: Call, roles: set[str]) -> list[str]:
    """The text blocks of the first message in one of these roles, and the whole as one."""
    for item in split_items(call.items, call.line):
        value = parsed(item, call.line)
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
    """The readable answers: one that no dialect explains is no evidence."""
    found = []
    for member in thread.members:
        try:
            answer = answer_of(parsed(member.call.response, member.call.line))
        except WireError:
            continue
        if answer is not None:
            found.append(answer.message)
    return found


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
