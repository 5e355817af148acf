"""A rollout comes back from its Parquet row as it went in, whatever its nested JSON holds."""

import math

import msgspec
import pytest

from trace_flywheel.lake.codec import SCHEMA, Spelt, drop_table, drops_of, rollouts_of, row_of, table_of
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rollout import Correction, Exchange, Rollout, RolloutError, Source

FULL = Rollout(
    "root/run",
    "t1",
    "task",
    Source("benchflow", "t1/result.json", "ab" * 32),
    messages=(
        Message("system", "be brief"),
        Message("user", [{"type": "text", "text": "a\u2028b"}, {"type": "image_url", "image_url": {"url": "x"}}]),
        Message(
            "assistant",
            None,
            reasoning="hm",
            tool_calls=(ToolCall("c1", "sh", '{"n": 1}'), ToolCall("c2", "sh", "not json", parsed=False)),
            token_ids=(1, 2),
            logprobs=(-0.5, -0.25),
        ),
        Message("tool", "", tool_call_id="c1", is_error=True),
    ),
    tools=(Tool("sh", "runs", {"type": "object", "properties": {"n": {"type": "integer"}}}),),
    exchanges=(Exchange(0, context=2, usage={"in": 3}), Exchange(1, "helper", messages=(Message("user", "t"),))),
    reward=0.5,
    rewards={"a": 1},
    reward_range=(0.0, 1.0),
    step_verdicts=("pass",),
    correction=Correction("better", "me", 0),
    error=RolloutError("timeout", "late", "agent"),
    redactions={},
    tokens_removed=True,
    verdict="pass",
)


def back(rollout: Rollout) -> Rollout:
    return next(rollouts_of(table_of([row_of(rollout)])))


def test_every_field_comes_back() -> None:
    unset = {f for f in Rollout.__struct_fields__ if getattr(FULL, f) in (None, (), False)}
    assert back(FULL) == FULL
    assert "redactions" not in unset


def test_one_row_never_takes_keys_from_another() -> None:
    other = msgspec.structs.replace(FULL, trace_id="t2", tools=(Tool("ls", parameters={"path": {"type": "string"}}),))
    rows = [row_of(FULL), row_of(other), row_of(Rollout("root/run", "t3", "task", FULL.source))]
    assert [r.tools for r in rollouts_of(table_of(rows))] == [FULL.tools, other.tools, ()]
    assert table_of([]).schema == SCHEMA


def test_non_finite_numbers_become_null_and_unusable_logprobs_go() -> None:
    odd = msgspec.structs.replace(
        FULL,
        messages=(Message("assistant", "x", logprobs=(-math.inf, 0.0), token_ids=(1, 2)),),
        exchanges=(),
        metadata={"score": math.nan},
        reward_range=(0.0, math.inf),
    )
    got = back(odd)
    assert got.messages == (Message("assistant", "x", token_ids=(1, 2)),)
    assert got.metadata == {"score": None}
    assert got.reward_range is None


def test_without_text_only_scalars_stay() -> None:
    got = next(rollouts_of(table_of([row_of(FULL, keep_text=False)])))
    assert (got.messages, got.tools, got.exchanges, got.correction) == ((), (), (), None)
    assert (got.trace_id, got.reward, got.error) == ("t1", 0.5, FULL.error)


def test_drops_come_back() -> None:
    drops = [Drop(Stage.READ, "bad_json", {"line": 2}, "r", None, path="p"), Drop(Stage.REDACT, "secret_left")]
    assert list(drops_of(drop_table(drops))) == drops


def test_an_unknown_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="no reason of stage"):
        Drop(Stage.READ, "felt_wrong")


def test_what_was_not_touched_is_written_as_it_was_read() -> None:
    spelt: Spelt = {}
    first = row_of(msgspec.structs.replace(FULL, trace_id="t0", exchanges=(), messages=FULL.messages[:1]))
    rollouts = rollouts_of(table_of([first, row_of(FULL)]), spelt)
    assert row_of(next(rollouts), spelt=spelt) == first
    assert set(spelt) == {"messages", "tools"}  # a row without calls has none of those of the row before
    read = next(rollouts)
    assert set(spelt) == {"messages", "tools", "exchanges"}
    assert row_of(read, spelt=spelt) == row_of(FULL)
    # The text is taken by the object that was read, not by its value or its name.
    spelt["tools"] = read.tools, "[]"
    assert row_of(read, spelt=spelt) != row_of(FULL)
    changed = msgspec.structs.replace(read, messages=read.messages[:2], tools=FULL.tools, exchanges=())
    assert row_of(changed, spelt=spelt) == row_of(changed)
    assert row_of(read, keep_text=False, spelt=spelt) == row_of(FULL, keep_text=False)
