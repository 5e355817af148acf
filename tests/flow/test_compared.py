"""Rows compared in another process are dropped as they would be here."""

from pathlib import Path

import numpy as np
import pytest

from tests.flow.test_near_ray import index_files
from trace_flywheel.curation.dedup import near_duplicates
from trace_flywheel.flow import curate
from trace_flywheel.flow.columns import Columns
from trace_flywheel.flow.frame import Index
from trace_flywheel.flow.funnel import Funnel
from trace_flywheel.settings import Dedup


@pytest.mark.parametrize("share", [0.8, 0.0])
def test_a_process_of_its_own_compares_what_is_alive(
    tmp_path: Path, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, columns = index_files(tmp_path, files=3, rows=120)
    funnel = Funnel(len(frame))
    funnel.alive[:] = np.random.default_rng(0).random(len(frame)) < share
    rank = np.random.default_rng(1).permutation(len(frame))
    wanted = near_duplicates(frame, funnel.alive, rank, *columns.spans(funnel.alive), 0.85)
    assert (len(wanted) > 20) == (share > 0)
    monkeypatch.setattr(Columns, "spans", None)  # nothing is read here
    monkeypatch.setattr(curate, "MANY", 0)
    curate.near_duplicates(funnel, Index(frame, columns, (), (), ()), rank, None, Dedup())
    assert funnel.drops.equals(wanted)
