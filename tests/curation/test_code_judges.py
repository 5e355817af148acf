"""Signals of a recording about itself; each value worked out by hand."""

import pytest

from trace_flywheel.curation.code_judges import NAMES, signals
from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rollout import Rollout, Source

USER = Message("user", "How many lines?")
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def rollout(*messages: Message, tools: tuple[Tool, ...] = (), **fields: object) -> Rollout:
    return Rollout("r", "t", "k", Source("atraj", "x.atraj", "0"), messages, tools, **fields)  # type: ignore[arg-type]  # any field


def call(id: str, arguments: str = '{"path": "a.txt"}', parsed: bool = True) -> Message:
    return Message("assistant", None, tool_calls=(ToolCall(id, "wc", arguments, parsed),))


def result(id: str, text: str, error: bool = False) -> Message:
    return Message("tool", text, tool_call_id=id, name="wc", is_error=error)


def test_without_calls_only_the_end_is_judged() -> None:
    assert signals(rollout(USER, Message("assistant", "I do not know."))) == {"ended": 1.0}


def test_names_are_those_that_come_out() -> None:
    found = signals(rollout(USER, call("1"), result("1", "113"), Message("assistant", "113 lines")))
    assert list(found) == list(NAMES)
    assert set(found.values()) == {1.0}


@pytest.mark.parametrize(
    ("arguments", "parsed", "value"),
    [('{"path": "a"}', True, 1.0), ("{}", True, 0.0), ('{"path": 5}', True, 0.0), ("rm -rf", False, 0.0)],
)
def test_arguments_against_the_declared_schema(arguments: str, parsed: bool, value: float) -> None:
    tool = Tool("wc", "", SCHEMA)
    assert signals(rollout(USER, call("1", arguments, parsed), tools=(tool,)))["arguments_valid"] == value


def test_an_inferred_or_broken_schema_accuses_nobody() -> None:
    inferred, broken = Tool("wc", "", SCHEMA, inferred=True), Tool("wc", "", {"type": 7})
    for tool in (inferred, broken):
        assert signals(rollout(USER, call("1", "{}"), tools=(tool,)))["arguments_valid"] == 1.0


def test_a_call_repeated_with_the_same_result_counts_against_it() -> None:
    again = rollout(USER, call("1"), result("1", "5"), call("2"), result("2", "5"), call("3"), result("3", "6"))
    assert signals(again)["calls_distinct"] == pytest.approx(2 / 3, abs=1e-6)


def test_spelling_of_arguments_does_not_make_a_call_new() -> None:
    same = rollout(USER, call("1"), result("1", "5"), call("2", '{ "path":"a.txt" }'), result("2", "5"))
    assert signals(same)["calls_distinct"] == 0.5


def test_failed_results_and_unknown_ones() -> None:
    mixed = rollout(USER, call("1"), result("1", "x", True), call("2", '{"path":"b"}'), result("2", "5"))
    assert signals(mixed)["calls_succeeded"] == 0.5


@pytest.mark.parametrize(
    ("answer", "value"),
    [("It has 113 lines.", 1.0), ("It has 112 lines.", 0.0), ("113, in notes/b.txt", 0.5), ("Many.", None)],
)
def test_what_an_answer_claims_must_have_been_seen(answer: str, value: float | None) -> None:
    found = signals(rollout(USER, call("1"), result("1", '{"stdout":"113 a.txt"}'), Message("assistant", answer)))
    assert found.get("answer_grounded") == value


@pytest.mark.parametrize("last", [call("2"), result("1", "5"), Message("assistant", "  "), USER])
def test_a_recording_that_does_not_end_in_an_answer(last: Message) -> None:
    assert signals(rollout(USER, call("1"), result("1", "5"), last))["ended"] == 0.0


def test_a_truncated_one_did_not_end() -> None:
    assert signals(rollout(USER, Message("assistant", "and so"), is_truncated=True))["ended"] == 0.0
