"""Which rows of the frame a published row is made from; what memory that takes while a dataset is made."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from trace_flywheel.flow.finishing import Finished
from trace_flywheel.flow.publish import layouts_for
from trace_flywheel.flow.uses import Uses
from trace_flywheel.flow.writing import add_rows
from trace_flywheel.lake.card import card
from trace_flywheel.lake.draft import drafting
from trace_flywheel.lake.ledger import FATES_SCHEMA
from trace_flywheel.lake.numbers import Numbers
from trace_flywheel.lake.spool import Spools
from trace_flywheel.records.rows import Provenance
from trace_flywheel.settings import Settings

INPUTS = {"digest": "d", "runs": [{"run_id": "r", "content_digest": "c"}]}
MANIFEST = {"kind": "rl", "inputs": INPUTS, "code": {"version": "0.1.0"}, "graders": {"exact": ["1"]}}
LAYOUTS = layouts_for("sft", ["trl-sft"])
ROWS = 1_500
HELD, MOST = 320, 2_000
"""Bytes a row that may be held when all rows were added, and while they are published: twice what it was when this was
written. As Python's objects a row took 1,200 and 3,400."""


def test_rows_by_their_sources_and_sources_by_their_rows() -> None:
    uses = Uses(Numbers(["c", "a", "b"]))
    uses.add((4, 0), 0)
    uses.add((4,), 1)
    uses.add((2,), 2)
    assert uses.counts(6).tolist() == [1, 0, 1, 0, 2, 0]
    assert uses.row_ids(6).of(np.arange(6)).to_pylist() == [["c"], [], ["b"], [], ["a", "c"], []]
    assert Uses().row_ids(2).of(np.arange(2)).to_pylist() == [[], []]


def finished(spools: Spools, n: int) -> Iterator[Finished]:
    for number in range(n):
        row_id = f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128):032x}"
        task, source = f"task-{number // 20:05d}", f"data/{number}.jsonl#{row_id * 2}"
        about = Provenance(row_id, "rl", task, "run", (f"trace-{number:06d}",), "g", "1", (1.0,), (source,))
        places = {one.NAME: spools.add(one.NAME, [b'{"row_id":"%b"}' % row_id.encode()]) for one in LAYOUTS}
        yield Finished((number,), about, places, (frozenset(("row_id",)),) * len(LAYOUTS))


def published(home: Path, n: int) -> tuple[float, float]:
    """Bytes a row that are held when the rows were added, and the most while they are published."""
    with drafting(home, "rl_dataset", [one.NAME for one in LAYOUTS]) as draft, Spools(draft.folder) as spools:
        before = tracemalloc.get_traced_memory()[0]
        done = add_rows(draft, finished(spools, n), LAYOUTS, Settings(), "sft")
        spools.__exit__(None, None, None)
        held = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.reset_peak()
        names, nothing = pa.array([f"{number:06d}" for number in range(n)]), pa.nulls(n, pa.string())
        kept = pa.array([True] * n)
        columns = [names, names, names, kept, done.uses.row_ids(n).of(np.arange(n)), nothing, nothing, nothing]
        draft.publish([pa.table(columns, schema=FATES_SCHEMA)], Settings().hashed(), MANIFEST, card, 3)
        return held / n, (tracemalloc.get_traced_memory()[1] - before) / n


def test_a_row_is_numbers_while_its_dataset_is_made(tmp_path: Path) -> None:
    published(tmp_path / "first", 10)  # what is loaded once
    tracemalloc.start()
    try:
        held, most = published(tmp_path / "home", ROWS)
    finally:
        tracemalloc.stop()
    assert held < HELD
    assert most < MOST, f"{most:.0f} bytes a row"
