"""Fates piece by piece: the same as all at once and in the same order, in memory of a piece and not of all evidence."""

import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.curation.decisions import drops
from trace_flywheel.flow import fates as module
from trace_flywheel.flow.columns import Columns
from trace_flywheel.flow.fates import Fates
from trace_flywheel.flow.frame import Index
from trace_flywheel.flow.funnel import Curated, Funnel
from trace_flywheel.flow.uses import Uses
from trace_flywheel.lake.ledger import ordered
from trace_flywheel.records.fate import Drop, Stage

NOWHERE = Columns((Path("nowhere"),), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))
ROWS, PIECE, EVIDENCE = 6_000, 100, 2_000


def curated(traces: list[tuple[str, str]], kept: list[int], lost: list[Drop], evidence: str = "") -> Curated:
    """Rollouts of these runs and traces; those that are not kept have two stages that dropped them."""
    frame = pd.DataFrame(sorted(traces), columns=["run_id", "trace_id"], dtype="str")
    frame = frame.assign(task_id="task", superseded=None)
    funnel = Funnel(len(frame))
    out = np.setdiff1d(np.arange(len(frame)), kept)
    for stage, reason, rows in (
        (Stage.SELECTION, "not_passing", out[::2]),
        (Stage.GROUPS, "single_scored_rollout", out[1::2]),
    ):
        funnel.take(drops(stage, rows[::-1], reason, [{"row": int(row) % 3, "is": evidence} for row in rows[::-1]]))
    return Curated("sft", Index(frame, NOWHERE, tuple(lost), (), ()), np.array(kept, dtype=np.int64), funnel.drops)


def used(kept: list[int]) -> tuple[Uses, dict[int, Drop]]:
    """Of the kept ones every fifth is dropped when it is published; every third is made into two rows."""
    uses, late = Uses(), {}
    for row in kept:
        if row % 5 == 4:
            late[row] = Drop(Stage.PUBLISH, "layout_refused", {"row": row})
            continue
        for n in range(1 + (row % 3 == 0)):
            uses.add((row,), uses.numbers.add(f"{997 * row % 64:02x}{n}"))
    return uses, late


names = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(names, names), max_size=12), st.data(), st.integers(1, 5))
def test_pieces_are_the_whole_in_order(traces: list[tuple[str, str]], data: st.DataObject, size: int) -> None:
    kept = sorted(data.draw(st.sets(st.integers(0, len(traces) - 1)))) if traces else []
    gone = data.draw(st.lists(st.tuples(st.none() | names, st.none() | names, st.integers(0, 2)), max_size=5))
    lost = [Drop(Stage.READ, "bad_json", {"n": n}, run_id=run, trace_id=trace) for run, trace, n in gone]
    fates = Fates(curated(traces, kept, lost), *used(kept))
    whole = fates.of(np.arange(len(fates)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "PIECE", size)
        pieces = list(fates)
    assert all(piece.num_rows <= size for piece in pieces)
    made = pa.concat_tables(pieces) if pieces else whole
    assert made.to_pylist() == ordered(whole).to_pylist()
    assert made.num_rows == len(traces) + len(lost)


def test_each_rollout_has_the_fate_that_was_decided() -> None:
    lost = [Drop(Stage.READ, "bad_json", {"n": 1}, run_id="r", trace_id="b")]
    kept = [0, 3, 4]
    fates = Fates(curated([("r", name) for name in "acefg"], kept, lost), *used(kept))
    (piece,) = fates
    told = [(f["trace_id"], f["kept"], f["row_ids"], f["stage"], f["reason"], f["evidence"]) for f in piece.to_pylist()]
    assert told == [
        ("a", True, ["000", "001"], None, None, None),
        ("b", False, [], "read", "bad_json", '{"n":1}'),
        ("c", False, [], "selection", "not_passing", '{"is":"","row":1}'),
        ("e", False, [], "groups", "single_scored_rollout", '{"is":"","row":2}'),
        ("f", True, ["2f0", "2f1"], None, None, None),
        ("g", False, [], "publish", "layout_refused", '{"row":4}'),
    ]


def test_evidence_is_not_held_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", PIECE)
    some = curated([("r", f"{n:06d}") for n in range(ROWS)], [0], [], "x" * EVIDENCE)
    before = pa.total_allocated_bytes()
    most = 0
    tracemalloc.start()
    try:
        for piece in Fates(some, *used([0])):
            most = max(most, pa.total_allocated_bytes() - before)
            del piece
        python = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most + python < ROWS * EVIDENCE / 4, "of 12 MB of evidence a piece is there again, 0.2 MB"
