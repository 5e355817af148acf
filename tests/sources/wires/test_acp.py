import pytest

from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.sources.wires.acp import inferred_tools, messages_of, tool_name


@pytest.mark.parametrize(
    ("event", "name"),
    [
        ({"tool_name": "mcp__db", "kind": "execute"}, "mcp__db"),
        ({"kind": "edit", "raw_input": {"edits": []}}, "MultiEdit"),
        ({"kind": "edit", "raw_input": {"old_string": "a"}}, "Edit"),
        ({"kind": "edit"}, "Write"),
        ({"kind": "other", "raw_input": {"file_path": "/a", "content": ""}}, "Write"),
        ({"kind": "other", "raw_input": {"file_path": "/a", "old_string": ""}}, "Edit"),
        ({"kind": "execute"}, "Bash"),
        ({"kind": "other", "raw_input": {"command": "ls"}}, "Bash"),
        ({"kind": "search", "raw_input": {"pattern": "**/*.py"}}, "Glob"),
        ({"kind": "search", "raw_input": {"pattern": "a?"}}, "Glob"),
        ({"kind": "search", "raw_input": {"pattern": "a*", "glob": "*.py"}}, "Grep"),
        ({"raw_input": {"pattern": "def main"}}, "Grep"),
        ({"kind": "other", "raw_input": {"url": "http://x"}}, "WebFetch"),
        ({"kind": "other", "raw_input": {"query": "x"}}, "WebSearch"),
        ({"kind": "read", "raw_input": {"file_path": "/a"}}, "Read"),
        ({"kind": "fetch"}, "WebFetch"),
        ({"kind": "think"}, "TodoWrite"),
        ({"kind": "skill"}, "skill"),
        ({}, "tool"),
        ({"kind": None, "raw_input": "text"}, "tool"),
    ],
)
def test_the_tool_behind_an_event(event: dict, name: str) -> None:
    assert tool_name(event) == name


def test_a_thought_after_text_opens_a_new_turn() -> None:
    events = [{"type": kind, "text": text} for kind, text in (("agent_message", "a"), ("agent_thought", "b"))]
    assert messages_of(events) == (Message("assistant", "a"), Message("assistant", None, reasoning="b"))


def test_what_is_no_event_says_nothing() -> None:
    assert messages_of(["x", {"type": "oracle", "command": "ls"}, {"type": "user_message", "text": None}]) == ()


def test_absent_arguments_and_outputs() -> None:
    reply, result = messages_of([{"type": "tool_call", "tool_call_id": "c1", "kind": "execute", "content": None}])
    assert reply.tool_calls == (ToolCall("c1", "Bash", "{}"),)
    assert result == Message("tool", "", tool_call_id="c1")


def test_tools_are_inferred_from_all_calls_of_a_name() -> None:
    calls = (ToolCall("1", "b", '{"y": 1}'), ToolCall("2", "a", "cut {", parsed=False), ToolCall("3", "b", '{"x": 1}'))
    tools = inferred_tools([Message("assistant", tool_calls=calls)])
    assert [(t.name, list(t.parameters["properties"]), t.inferred) for t in tools] == [
        ("a", [], True),
        ("b", ["x", "y"], True),
    ]
    assert all(isinstance(tool, Tool) for tool in tools)
