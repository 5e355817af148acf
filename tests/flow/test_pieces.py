"""Work on a dataset is cut by what it costs: text, and the opening of parts."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from trace_flywheel.flow import pieces as cutting
from trace_flywheel.flow.frame import Index, graded, load_index
from trace_flywheel.flow.funnel import Curated
from trace_flywheel.flow.ingest import ingest
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.pieces import pieces
from trace_flywheel.flow.reading import Reading
from trace_flywheel.flow.texts import readings
from trace_flywheel.flow.watch import watch
from trace_flywheel.lake import parts
from trace_flywheel.lake.store import Lake
from trace_flywheel.settings import load_settings

RUNS, ATTEMPTS = 9, 4


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Runs of four rollouts, in two parts each, named so that no order is that of another."""
    monkeypatch.setattr(parts, "PART_ROWS", 2)
    for number in range(RUNS):
        path = tmp_path / "jobs" / "runs" / f"r{number * 7 % RUNS}" / "results.json"
        path.parent.mkdir(parents=True)
        said = [{"role": "user", "content": f"Add {number}."}, {"role": "assistant", "content": "Done."}]
        row = {"task_id": "add", "messages": said, "verdict": "pass", "reward": 1.0, "grader": "g"}
        path.write_text(json.dumps([{**row, "trace_id": f"t{(n * 3) % ATTEMPTS}"} for n in range(ATTEMPTS)]))
    settings = load_settings(home=tmp_path / "home", roots=(tmp_path / "jobs",), ingest={"workers": 1})
    made = Lake(settings.home)
    seen = watch(settings, made)
    ingest(seen.todo, made, settings, seen.inputs, workers=1)
    return made


def described(lake: Lake) -> Index:
    return graded(load_index(lake), SideInputs())


def plain(found: list[Reading]) -> list[tuple[str, str, list[tuple[int, int]]]]:
    return [(one.run_id, one.path.name, list(one.rows.items())) for one in found]


@pytest.mark.parametrize("seed", range(4))
def test_readings_are_the_parts_in_the_order_of_runs(lake: Lake, seed: int) -> None:
    index = described(lake)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(index.frame))[: rng.integers(1, len(index.frame))]
    places = index.frame.iloc[rows][["run_id", "part", "position"]].assign(row=rows)
    expected = [
        (run, f"part-{part:05d}.parquet", list(zip(group["position"], group["row"], strict=True)))
        for (run, part), group in places.groupby(["run_id", "part"], sort=True)
    ]
    assert plain(list(readings(lake, index, rows))) == expected
    assert len({part for _, part, _ in expected}) == 2 or len(rows) < 4


def test_nothing_chosen_is_nothing_to_read(lake: Lake) -> None:
    assert list(readings(lake, described(lake), np.zeros(0, dtype=np.int64))) == []


def test_many_small_parts_are_many_pieces(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of 18 parts is a few hundred characters: by it alone they would be one process's work."""
    index = described(lake)
    rows = np.arange(len(index.frame))
    curated = Curated("sft", index, rows, pd.DataFrame())
    assert [len(piece.readings) for piece in pieces(lake, curated)] == [2 * RUNS]
    monkeypatch.setattr(cutting, "PIECE_CHARS", 4 * cutting.PART_CHARS)
    cut = list(pieces(lake, curated))
    assert [len(piece.readings) for piece in cut] == [4, 4, 4, 4, 2]
    assert [one for piece in cut for one in piece.readings] == list(readings(lake, index, rows))
