"""Depth by the calls that were made: what counts as dependent, and what proves nothing."""

import json

import pytest

from trace_flywheel.curation.trajectory_depth import Evidence, evidence
from trace_flywheel.records.message import Message, ToolCall


def call(name: str, **arguments: object) -> Message:
    return Message("assistant", None, tool_calls=(ToolCall("c", name, json.dumps(arguments)),))


USER = Message("user", "Read count.txt and mail the number to ann@example.com")


def test_a_call_that_uses_an_earlier_result_depends_on_it() -> None:
    found = evidence([USER, call("read", path="count.txt"), Message("tool", "4711"), call("mail", body="It is 4711.")])
    assert found == Evidence(calls=2, dependent_calls=1, tools=2, turns=2)
    assert found.label == "multi"


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ({"to": "ann@example.com"}, "ann@example.com"),  # the user said it first
        ({"path": "count.txt"}, "count.txt 4711"),  # an earlier call said it first
        ({"n": 7}, "7"),  # too short to have been carried
    ],
)
def test_what_was_known_before_carries_nothing(arguments: dict[str, object], result: str) -> None:
    found = evidence([USER, call("read", path="count.txt"), Message("tool", result), call("next", **arguments)])
    assert (found.dependent_calls, found.label) == (0, None)


def test_numbers_nested_in_arguments_are_looked_at() -> None:
    messages = [USER, call("ls"), Message("tool", "4711"), call("sum", of=[{"n": 4711}, True, None])]
    assert evidence(messages).dependent_calls == 1


def test_one_call_is_one_look_up_and_none_proves_nothing() -> None:
    assert evidence([USER, call("read", path="count.txt"), Message("tool", "1")]).label == "single"
    assert evidence([USER, Message("assistant", "4711")]).label is None


def test_arguments_that_are_no_json_are_read_as_text() -> None:
    bad = Message("assistant", None, tool_calls=(ToolCall("c", "sh", "cat 4711", parsed=False),))
    assert evidence([USER, call("ls"), Message("tool", "4711"), bad]).dependent_calls == 1
