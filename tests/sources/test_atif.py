from typing import Any

import pytest

from trace_flywheel.records.message import Message
from trace_flywheel.sources.wires.atif import Conversation, OrphanedObservationError, conversation_of
from trace_flywheel.sources.wires.parts import WireError


def trajectory(*steps: dict[str, Any], **top: Any) -> dict[str, Any]:
    agent = {"name": "terminus-2", "version": "2.0.0", "model_name": "p/m"}
    return {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": agent, "steps": list(steps)} | top


def read(document: dict[str, Any], others: dict[str, Any] | None = None) -> Conversation:
    return conversation_of(document, (others or {}).get)


def user(text: str = "do it", **fields: Any) -> dict[str, Any]:
    return {"source": "user", "message": text} | fields


def agent(text: str = "", calls: int = 0, results: list[Any] | None = None, **fields: Any) -> dict[str, Any]:
    step: dict[str, Any] = {"source": "agent", "message": text}
    if calls:
        step["tool_calls"] = [
            {"tool_call_id": f"c{n}", "function_name": "run", "arguments": {"n": n}} for n in range(calls)
        ]
    if results is not None:
        step["observation"] = {"results": [{"content": r} if not isinstance(r, dict) else r for r in results]}
    return step | fields


def tools(found: Conversation) -> list[tuple[str | None, Any]]:
    return [(m.tool_call_id, m.content) for m in found.messages if m.role == "tool"]


def test_roles_text_and_reasoning() -> None:
    found = read(trajectory({"source": "system", "message": "s"}, user("u"), agent("a", reasoning_content="r")))
    assert found.messages == (Message("system", "s"), Message("user", "u"), Message("assistant", "a", reasoning="r"))
    assert (found.agent, found.agent_version, found.model, found.session_id) == ("terminus-2", "2.0.0", "p/m", "s")


def test_one_observation_of_several_calls_is_the_last_ones() -> None:
    found = read(trajectory(user(), agent("a", 3, ["screen"])))
    assert tools(found) == [("c0", ""), ("c1", ""), ("c2", "screen")]
    marks = [m.extra for m in found.messages if m.role == "tool"]
    assert marks == [{"observed_with_later_call": True}, {"observed_with_later_call": True}, None]


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        (["1", "2"], [("c0", "1"), ("c1", "2")]),
        ([], []),
        ([{"content": "x", "source_call_id": "c1"}], [("c1", "x")]),
        ([{"content": "x", "source_call_id": "c0"}, "y"], [("c0", "x"), ("c1", "y")]),
        ([{"content": "x", "source_call_id": "c1"}, "y"], [("c0", "y"), ("c1", "x")]),
        ([{"content": "", "source_call_id": "c0"}, {"source_call_id": "c1"}], [("c0", ""), ("c1", "")]),
        (["1", "2", "3"], [("c0", "1"), ("c1", "2\n3")]),
    ],
)
def test_results_find_their_calls(results: list[Any], expected: list[tuple[str, str]]) -> None:
    assert tools(read(trajectory(user(), agent("a", 2, results)))) == expected


def test_what_else_was_observed_is_said_by_the_environment() -> None:
    named = [{"content": "1", "source_call_id": "c0"}, "a reminder"]
    found = read(trajectory(user(), agent("a", 1, named)))
    assert [(m.role, m.content) for m in found.messages[2:]] == [("tool", "1"), ("user", "a reminder")]


def test_an_observation_without_calls_is_a_user_turn() -> None:
    found = read(trajectory(user(), agent("garbled", 0, ["Previous response had parsing errors"]), agent("better")))
    assert [m.role for m in found.messages] == ["user", "assistant", "user", "assistant"]


def test_an_observation_of_an_unknown_call_is_an_orphan() -> None:
    with pytest.raises(OrphanedObservationError):
        read(trajectory(user(), agent("a", 1, [{"content": "x", "source_call_id": "zzz"}])))


def test_a_trailing_user_step_and_empty_text_are_kept() -> None:
    found = read(trajectory(user("q"), agent(""), user("last question")))
    assert [(m.role, m.content) for m in found.messages][1:] == [("assistant", None), ("user", "last question")]


def test_images_stay_parts_with_their_relative_path() -> None:
    image = {"type": "image", "source": {"media_type": "image/png", "path": "images/1.png"}}
    found = read(trajectory(user(), agent("a", 1, [[{"type": "text", "text": "see"}, image]])))
    assert found.messages[2].content == [{"type": "text", "text": "see"}, image]


def test_tokens_and_logprobs_stay_on_the_turn_and_usage_on_the_call() -> None:
    metrics = {"completion_token_ids": [1, 2], "logprobs": [-1, -0.5], "prompt_token_ids": [7], "completion_tokens": 2}
    found = read(trajectory(user(), agent("a", metrics=metrics)))
    turn = found.messages[1]
    assert (turn.token_ids, turn.logprobs, turn.extra) == ((1, 2), (-1.0, -0.5), {"prompt_token_ids": [7]})
    (call,) = found.exchanges
    assert (call.index, call.context, call.usage) == (0, 1, {"completion_tokens": 2})


def test_declared_tools_win_over_inferred_ones() -> None:
    definition = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}
    steps = (user(), agent("a", 1, ["x"]))
    declared = trajectory(*steps)
    declared["agent"] = {"name": "x", "tool_definitions": [definition]}
    assert [(t.name, t.inferred) for t in read(declared).tools] == [("run", False)]
    assert [(t.name, t.inferred) for t in read(trajectory(*steps)).tools] == [("run", True)]


def test_copied_context_never_trains() -> None:
    found = read(trajectory(user(is_copied_context=True), agent("old", is_copied_context=True), agent("new")))
    assert [m.train_on for m in found.messages] == [None, False, None]
    assert found.messages[1].extra == {"copied_context": True}
    assert [e.context for e in found.exchanges] == [2]


def test_a_continuation_goes_on_and_copies_train_once() -> None:
    first = trajectory(user(), agent("one"), continued_trajectory_ref="cont-1.json")
    second = trajectory(user("handoff", is_copied_context=True), agent("one", is_copied_context=True), agent("two"))
    found = read(first, {"cont-1.json": second})
    assert [m.content for m in found.messages if m.role == "assistant" and m.train_on is not False] == ["one", "two"]
    assert (found.cut, found.lost) == (False, ())


def test_a_lost_continuation_cuts_the_conversation_and_a_loop_ends() -> None:
    first = trajectory(user(), agent("one"), continued_trajectory_ref="cont-1.json")
    lost = read(first)
    assert (lost.cut, lost.lost) == (True, ("cont-1.json",))
    loop = read(first, {"cont-1.json": first})
    assert not loop.cut
    assert len([m for m in loop.messages if m.role == "assistant"]) == 2


def test_a_subagent_is_one_exchange_with_its_whole_thread() -> None:
    reference = {"subagent_trajectory_ref": [{"trajectory_path": "summary.json"}, {"trajectory_path": "gone.json"}]}
    step = {"source": "system", "message": "summarised", "observation": {"results": [reference]}}
    summary = trajectory(user("u", is_copied_context=True), agent("sum"))
    found = read(trajectory(user(), agent("a"), step, agent("b")), {"summary.json": summary})
    own, helper = found.exchanges
    assert (own.context, own.purpose) == (1, "agent")
    assert (helper.purpose, helper.thread, [m.content for m in helper.messages]) == ("compaction", 1, ["u", "sum"])
    assert found.lost == ("gone.json",)
    assert "subagent_trajectory_ref" in (found.messages[2].extra or {})
    assert [m.role for m in found.messages] == ["user", "assistant", "system", "assistant"]


def test_ids_are_unique_over_continuations() -> None:
    first = trajectory(user(), agent("one", 1, ["1"]), continued_trajectory_ref="c")
    found = read(first, {"c": trajectory(agent("two", 1, ["2"]))})
    assert tools(found) == [("c0", "1"), ("c0-2", "2")]


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ([], "no ATIF trajectory"),
        ({"steps": []}, "schema_version"),
        (trajectory(schema_version="ATIF-v2.0"), "'ATIF-v2.0'; known: ATIF-v1.2"),
        (trajectory({"source": "narrator", "message": "m"}), "narrator"),
        (trajectory({"source": "user", "message": 3}), "steps"),
    ],
)
def test_another_shape_is_refused(document: Any, says: str) -> None:
    with pytest.raises(WireError, match=says):
        read(document)


@pytest.mark.parametrize("minor", range(2, 9))
def test_every_version_is_read(minor: int) -> None:
    assert len(read(trajectory(user(), schema_version=f"ATIF-v1.{minor}")).messages) == 1
