"""What every conversation keeps to: bug shapes A7, A9, A12, A13, F46."""

import pytest

from trace_flywheel.trainers.rules import conversation_faults, target_faults

TOOLS = [{"type": "function", "function": {"name": "bash"}}]


def asks(*ids, name="bash", arguments="{}"):
    calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def result(id_):
    return {"role": "tool", "tool_call_id": id_, "content": ""}


USER = {"role": "user", "content": "q"}
SAYS = {"role": "assistant", "content": "a"}


def test_paired_calls_and_an_open_call_at_the_end_are_fine():
    assert list(conversation_faults([USER, asks("1", "2"), result("2"), result("1"), asks("1")], TOOLS)) == []


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([USER, result("1"), asks("1"), SAYS], "messages[1]: tool_call_id '1' answers no open call"),
        ([USER, asks("1"), SAYS], "messages[1]: call '1' has no result before messages[2]"),
        ([USER, asks("1", "2"), result("1")], "messages[1]: call '2' has no result although"),
        ([USER, asks("1"), result("1"), result("1")], "messages[3]: tool_call_id '1' answers no open call"),
        ([USER, asks("1", "1")], "messages[1]: two calls have the id '1'"),
        ([USER, asks("1", name="rm")], "messages[1]: tool 'rm' is not declared"),
        ([USER, asks("1", arguments="[1]")], "messages[1]: arguments of call '1' are no JSON object"),
        ([USER, {"role": "tool", "content": ""}], "messages[1]: a tool message needs a tool_call_id"),
        ([USER, {"role": "system", "content": "s"}], "messages[1]: a system message may only stand first"),
        ([dict(asks("1"), role="user")], "messages[0]: tool_calls on a user message"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0]: content has parts that are no text"),
    ],
)
def test_each_fault_is_named_with_its_place(messages, fault):
    assert any(f.startswith(fault) for f in conversation_faults(messages, TOOLS))


def test_calls_without_any_declared_tool():
    assert list(conversation_faults([USER, asks("1")], [])) == ["messages: 1 tool call(s) but no tool is declared"]


def test_the_canonical_layout_holds_late_system_turns_and_parts():
    messages = [USER, {"role": "system", "content": [{"type": "image_url"}]}]
    assert list(conversation_faults(messages, [], canonical=True)) == []


def test_a_row_must_teach_something():
    assert list(target_faults([USER])) == ["messages: no assistant turn to train on"]
    assert list(target_faults([USER, dict(SAYS, train_on=False)])) == ["messages: no assistant turn to train on"]
    assert list(target_faults([USER, {"role": "assistant", "content": " "}])) == ["messages[1]: the answer is empty"]
    assert list(target_faults([USER, SAYS])) == []
