"""Keys of rows: the same however many are worked out at a time, in memory of their own size and not of the index."""

import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from trace_flywheel.curation.decisions import no_drops
from trace_flywheel.flow import row_keys
from trace_flywheel.flow.columns import Columns
from trace_flywheel.flow.frame import Index
from trace_flywheel.flow.funnel import Curated
from trace_flywheel.flow.row_keys import wanted

ROWS, OTHERS = 4_000, 200
MOST = 300
"""Bytes a row: twice what it was when this was written. With a copy of the index 1,600 more."""


def chosen(n: int) -> Curated:
    """All rollouts of an index with many columns that no key is made of."""
    named = pd.DataFrame(
        {
            "run_id": "r",
            "part": np.zeros(n, dtype=np.int64),
            "position": np.arange(n)[::-1],
            "verdict": "pass",
            "reward": np.linspace(0, 1, n),
            "grader": None,
            "grader_version": None,
            "superseded": None,
        }
    )
    others = pd.DataFrame(np.zeros((n, OTHERS)), columns=[f"other {i}" for i in range(OTHERS)])
    nowhere = Columns((Path("nowhere"),), np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32))
    index = Index(pd.concat([named, others], axis=1), nowhere, (), (), ())
    return Curated("sft", index, np.arange(n), no_drops())


def test_keys_take_no_copy_of_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    curated = chosen(ROWS)
    at_once = wanted(curated)
    assert at_once.sources[:, 0].tolist() == list(range(ROWS))[::-1], "as their texts are read"
    assert len(set(at_once.keys.tolist())) == ROWS
    monkeypatch.setattr(row_keys, "BLOCK", 100)
    tracemalloc.start()
    try:
        asked = wanted(curated)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.array_equal(asked.keys, at_once.keys)
    assert most / ROWS < MOST, f"{most / ROWS:.0f} bytes a row"
