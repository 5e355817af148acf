"""A trace counts once in a conversion: copies give their rows once, different traces under one id give none."""

import gc
import json
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from tests.flow.conftest import trace, write_runs
from tests.recordings import answer, record, user
from trace_flywheel.flow.conversion.convert import convert
from trace_flywheel.flow.conversion.identity import content_of
from trace_flywheel.flow.conversion.manifest import Tally
from trace_flywheel.flow.conversion.once import once
from trace_flywheel.flow.conversion.request import Request
from trace_flywheel.flow.conversion.rollout import Outcome
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout, Source


def run(root: Path, **values: object) -> tuple[list[dict], Tally, list[str]]:
    warnings: list[str] = []
    out = root.parent / "rows.jsonl"
    tally = convert(Request(paths=(root,), out=out, **values), 1, warnings.append)  # type: ignore[arg-type]
    return [json.loads(line) for line in out.read_text().splitlines()], tally, warnings


def test_copies_of_a_trace_give_their_rows_once(tmp_path):
    rows = [trace("a", "t", 1.0, 1), trace("b", "t", 0.0, 2), trace("a", "t", 1.0, 1)]
    written, tally, warnings = run(write_runs(tmp_path / "data", {"r1": rows}))
    assert [row["messages"][-1]["content"] for row in written] == [r["messages"][-1]["content"] for r in rows[:2]]
    assert [(d["trace_id"], d["stage"], d["reason"]) for d in tally.drops] == [("a", "same_rollout", "same_rollout")]
    assert (tally.rollouts, tally.converted, warnings) == (3, 2, [])


def test_the_same_id_in_another_run_is_another_trace(tmp_path):
    one = [trace("a", "t", 1.0, 1)]
    written, tally, _ = run(write_runs(tmp_path / "data", {"r1": one, "r2": one}))
    assert (len(written), tally.drops) == (2, [])


@pytest.mark.parametrize("other", [trace("a", "t", 1.0, 3), trace("a", "t", 0.75, 1)])
def test_different_traces_under_one_id_are_left_out_and_named(tmp_path, other):
    rows = [trace("a", "t", 1.0, 1), trace("b", "u", 0.0, 2), other, trace("c", "u", 1.0, 9)]
    root = write_runs(tmp_path / "data", {"r1": rows})
    written, tally, warnings = run(root)
    assert [row["messages"][-1]["content"] for row in written] == [rows[i]["messages"][-1]["content"] for i in (1, 3)]
    assert [(d["trace_id"], d["stage"], d["reason"]) for d in tally.drops] == [
        ("a", "read", "conflicting_trace_id"),
        ("a", "read", "conflicting_trace_id"),
    ]
    assert len(warnings) == 2
    assert warnings[0].endswith("results.json: conflicting_trace_id (a)")
    with pytest.raises(FlywheelError, match="conflicting_trace_id"):
        run(root, strict=True)


def test_a_copy_is_no_member_and_a_conflict_withholds_its_group(tmp_path):
    rows = [trace("a", "t", 1.0, 1), trace("b", "t", 0.0, 2), trace("a", "t", 1.0, 1)]
    written, tally, _ = run(write_runs(tmp_path / "data", {"r1": rows}), group_advantage="loo")
    assert [row["advantage"] for row in written] == [1.0, -1.0]
    assert tally.groups[0]["rollouts"] == 2
    rows[2] = trace("a", "t", 1.0, 7)
    written, tally, _ = run(write_runs(tmp_path / "data", {"r1": rows}), group_advantage="loo")
    assert (written, tally.groups[0]["withheld"]) == ([], "withheld_unreadable")


def test_recordings_with_one_id(tmp_path):
    for name in ("one", "copy"):
        record(tmp_path / name, "x", user("Is it?"), answer("yes"))
    (tmp_path / "all").mkdir()
    for name in ("one", "copy"):
        (file,) = (tmp_path / name).iterdir()
        file.rename(tmp_path / "all" / f"{name}.atraj")
    written, tally, _ = run(tmp_path / "all")
    assert (len(written), [d["reason"] for d in tally.drops]) == (1, ["same_rollout"])
    other = record(tmp_path / "other", "x", user("Is it?"), answer("no"))
    other.rename(tmp_path / "all" / "other.atraj")
    written, tally, _ = run(tmp_path / "all")
    assert (written, [d["reason"] for d in tally.drops]) == ([], ["conflicting_trace_id"] * 3)


def test_no_more_than_a_few_rollouts_rows_are_held_at_once(tmp_path):
    """What was handed on is let go: in exchange mode the rows of a job are as long as the job."""
    waiting = [Outcome(path=f"t{n}", trace_id=f"t{n}", run_id="r", content=b"c", rows=[b"x"]) for n in range(50)]
    alive = WeakSet[Any]()
    most = 0
    for outcome in once(iter(waiting), lambda _: None):
        rows = Rows(outcome.rows)
        outcome.rows = rows
        alive.add(rows)
        waiting.clear()
        del outcome, rows
        gc.collect()
        most = max(most, len(alive))
    assert most <= 1


class Rows(list):
    """A list that a weak reference can hold."""

    __hash__ = object.__hash__


REWARDS = ["1", "1.0", "0.5", "true", "null", "NaN", str(2**63), str(2**80), str(2**80 + 1)]


@pytest.mark.parametrize("first", REWARDS)
def test_content_is_the_same_for_equal_data_only_whatever_numbers_it_holds(first):
    def content(number: str) -> bytes:
        parts = [{"type": "image", "size": json.loads(number)}]
        return content_of(Rollout("r", "t", "task", Source("eval", "p", "s"), messages=(Message("user", parts),)))

    assert [other for other in REWARDS if content(other) == content(first)] == [first]
