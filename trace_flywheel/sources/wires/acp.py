"""ACP events of an agent's session: the record of a trial whose model calls did not pass the gateway.

One assistant message per reply (a thought after text or calls opens a new one), then one tool message per call. The
events name a display title, not always the tool, so the name is inferred where it is absent and so are the schemas;
arguments and outputs exist only where the agent sent them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.sources.wires.openai_chat import assistant
from trace_flywheel.sources.wires.parts import arguments_of, call_of, joined

_BY_KIND = {"read": "Read", "fetch": "WebFetch", "think": "TodoWrite"}


def messages_of(events: Iterable[Any]) -> tuple[Message, ...]:
    """Canonical messages of the events in order; events of an unknown type say nothing."""
    turns = _Turns()
    for event in events:
        if not isinstance(event, dict):
            continue
        kind = event.get("type")
        text = event.get("text")
        if kind == "tool_call":
            turns.call(event)
        elif isinstance(text, str) and text:
            if kind == "user_message":
                turns.flush()
                turns.messages.append(Message(role="user", content=text))
            elif kind == "agent_thought":
                turns.thought(text)
            elif kind == "agent_message":
                turns.text(text)
    turns.flush()
    return tuple(turns.messages)


class _Turns:
    """Collects the current reply and, behind it, the results of its calls."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._thoughts: list[str] = []
        self._texts: list[str] = []
        self._calls: list[ToolCall] = []
        self._results: list[Message] = []

    def flush(self) -> None:
        if self._thoughts or self._texts or self._calls:
            reply = assistant(joined(*self._texts), joined(*self._thoughts), tuple(self._calls))
            self.messages += [reply, *self._results]
        self._thoughts, self._texts, self._calls, self._results = [], [], [], []

    def thought(self, text: str) -> None:
        if self._texts or self._calls:
            self.flush()
        self._thoughts.append(text)

    def text(self, text: str) -> None:
        if self._calls:
            self.flush()
        self._texts.append(text)

    def call(self, event: Mapping[str, Any]) -> None:
        made = call_of(event.get("tool_call_id"), tool_name(event), event.get("raw_input"), len(self._calls))
        self._calls.append(made)
        failed = True if event.get("status") == "failed" else None
        self._results.append(Message(role="tool", content=_output(event), tool_call_id=made.id, is_error=failed))


def tool_name(event: Mapping[str, Any]) -> str:
    """The tool behind a call event: recorded, else inferred from its kind and argument names (Claude's tools)."""
    recorded, kind = event.get("tool_name"), event.get("kind")
    if isinstance(recorded, str) and recorded:
        return recorded
    given = event.get("raw_input")
    arguments: Mapping[str, Any] = given if isinstance(given, dict) else {}
    if kind == "edit" or ("file_path" in arguments and arguments.keys() & {"content", "old_string"}):
        return "MultiEdit" if "edits" in arguments else "Edit" if "old_string" in arguments else "Write"
    if kind == "execute" or "command" in arguments:
        return "Bash"
    if kind == "search" or "pattern" in arguments:
        pattern = str(arguments.get("pattern", ""))
        narrowed = arguments.keys() & {"output_mode", "glob", "type"}
        return "Grep" if narrowed or not ("*" in pattern or "?" in pattern) else "Glob"
    if "url" in arguments:
        return "WebFetch"
    if "query" in arguments:
        return "WebSearch"
    named = kind if isinstance(kind, str) and kind else "tool"
    return _BY_KIND.get(named, named)


def _output(event: Mapping[str, Any]) -> str:
    if "raw_output" in event:
        output = event["raw_output"]
        return output if isinstance(output, str) else "" if output is None else arguments_of(output)[0]
    blocks = event.get("content")
    texts = []
    for block in blocks if isinstance(blocks, list) else ():
        inner = block.get("content") if isinstance(block, dict) else None
        texts.append(inner.get("text") if isinstance(inner, dict) else None)
    return joined(*texts) or ""


def inferred_tools(messages: Iterable[Message]) -> tuple[Tool, ...]:
    """A tool for every name called, its schema the argument names seen, sorted by name."""
    seen: dict[str, dict[str, Any]] = {}
    for call in (call for message in messages for call in message.tool_calls):
        properties = seen.setdefault(call.name, {})
        if call.parsed:
            properties.update({key: {} for key in orjson.loads(call.arguments)})
    return tuple(
        Tool(
            name=name,
            description="Inferred from the calls seen; the source recorded no declaration.",
            parameters={"type": "object", "properties": dict(sorted(properties.items()))},
            inferred=True,
        )
        for name, properties in sorted(seen.items())
    )
