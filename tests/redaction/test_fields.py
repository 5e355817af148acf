"""Listing and rebuilding see the same values in the same order."""

from typing import Any

from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rollout import Correction, Exchange, Rollout, RolloutError, Source
from trace_flywheel.redaction.fields import Owner, Taking, visit
from trace_flywheel.redaction.gather import Gathered

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
CAPTURE = {"wire": "w", "prompt_token_ids": [1], "completions": [{"tokens": ["a"]}]}
FULL = Rollout(
    "run",
    "t1",
    "task",
    Source("eval_run", "r.json", "0" * 64),
    (
        Message("system", "sys"),
        Message("user", [{"type": "text", "text": "hi"}, IMAGE]),
        Message("assistant", None, "why", (ToolCall("c", "run", '{"a": 1}'),), extra={"input_ids": [1], "note": "n"}),
        Message("tool", "out", tool_call_id="c", name="run"),
    ),
    (Tool("run", "does", {"type": "object"}, extra={"x": "y"}),),
    (
        Exchange(0, messages=(Message("user", "u"),), tools=(Tool("t", "d"),), usage={"n": 1}),
        Exchange(1, context=1, token_capture=CAPTURE),
    ),
    sampling={"temperature": 1.0},
    stop_reason="done",
    verdict_text="ok-ish",
    reward_text="NaN",
    rewards={"a": 1},
    reward_vector={"b": 2},
    scoring={"c": "note"},
    step_verdicts=("pass", "meh"),
    correction=Correction("better", "ann"),
    error=RolloutError("timeout", "late"),
    token_usage={"d": 3},
    metadata={"e": 4},
)


class Every(Taking):
    """Passes nothing by and tells all that it saw."""

    def __init__(self, new: str | None) -> None:
        super().__init__([], set())
        self.new = new
        self.seen: list[Any] = []
        self.whose: list[Owner] = []

    def untouched(self) -> int:
        return -1

    def __call__(self, value: Any, owner: Owner) -> Any:
        self.seen.append(value)
        self.whose.append(owner)
        return self.new if self.new is not None and isinstance(value, str) else value


def test_both_walks_agree() -> None:
    every = Every(None)
    assert visit(FULL, every) is FULL
    assert Gathered(FULL).values == every.seen
    assert {"wire": "w"} in every.seen
    assert {"note": "n"} in every.seen


def test_what_is_passed_by_is_counted_right() -> None:
    every = Every(None)
    visit(FULL, every)
    for place in range(len(every.seen)):
        values = [
            *every.seen[:place],
            "NEW" if isinstance(every.seen[place], str) else {"new": 1},
            *every.seen[place + 1 :],
        ]
        taking = Taking(values, {place})
        assert (visit(FULL, taking) != FULL) or isinstance(every.seen[place], dict)
        assert taking.owners == {place: every.whose[place]}


def test_every_string_can_be_replaced_and_nothing_else_changes() -> None:
    every = Every("NEW")
    new, owners = visit(FULL, every), every.whose
    assert [v for v in Gathered(new).values if isinstance(v, str)] == ["NEW"] * 18
    assert new.messages[2].extra == FULL.messages[2].extra
    assert new.exchanges[1] is FULL.exchanges[1]
    assert owners[:2] == [Owner("message", -1, 0), Owner("message", -1, 1)]
    assert Owner("exchange", 0, 0) in owners
    assert Owner("exchange_tools", 1) in owners
