"""Publication by one process or several: the same bytes, and every row decided on in the order of the rows."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.flow.conftest import Flow, Row, group, sentence, write_runs
from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow import crew as crews
from trace_flywheel.flow.finishing import Finished, finish
from trace_flywheel.flow.publish import Finisher, layouts_for
from trace_flywheel.flow.workers import Processes
from trace_flywheel.flow.writing import Published, add_rows
from trace_flywheel.lake.dataset import find_version
from trace_flywheel.lake.draft import drafting
from trace_flywheel.lake.shards import write_shard
from trace_flywheel.records.golden import Golden
from trace_flywheel.records.message import Message
from trace_flywheel.records.rows import Provenance, SftRow
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.settings import Settings

DATASETS = ("sft_dataset", "dpo_dataset", "kto_dataset", "rl_dataset", "rl_prompts", "balanced_mix")


def answers(task: str, rewards: tuple[float, ...], seed: int) -> list[Row]:
    """Attempts at a task of its own prompt."""
    rows = group(task, rewards, seed)
    for row in rows:
        row["messages"][0]["content"] = f"{sentence(1000 + seed, 12)} {task}"
    return rows


def corpus() -> dict[str, list[Row]]:
    """Groups within a run, one across all runs, and two tasks whose attempts say the same."""
    runs = {f"r{n}": answers(f"t{n}", (1.0, 0.75, 0.5, 0.25, 0.0), 20 * n) for n in range(4)}
    for number, row in enumerate(answers("wide", (1.0, 0.6, 0.3, 0.0), 200)):
        runs[f"r{number}"].append(row)
    for run, name in (("r0", "twin"), ("r3", "other")):
        twins = answers("twin", (1.0, 0.5, 0.2, 0.0), 300)
        runs[run] += [{**row, "task_id": name, "trace_id": f"{name}-{n}"} for n, row in enumerate(twins)]
    return runs


def published(home: Path) -> dict[str, bytes]:
    folders = [find_version(home, name).path for name in DATASETS]
    return {f"{f.parent.name}/{p.relative_to(f)}": p.read_bytes() for f in folders for p in f.rglob("*") if p.is_file()}


def test_no_process_beside_one_two_and_three_publish_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []

    class Watched(Processes[Any, Any, Any]):
        def over(self, tasks: Any, loads: Any = None) -> Any:
            tasks = list(tasks)
            used.extend(function.__name__ for function, _ in tasks)
            return super().over(tasks, loads)

    monkeypatch.setattr(crews, "Processes", Watched)
    root = write_runs(tmp_path / "data", corpus(), [{"task_id": "held"}])
    options = {"mix": {"shortage": "renormalize"}, "pairs": {"min_group": 2}, "splits": {"eval": 0.3}}
    flow = Flow(root, tmp_path / "home1", ingest={"workers": 1}, **options)
    flow.run()
    one = published(flow.settings.home)
    assert not used
    assert all(find_version(flow.settings.home, name).rows for name in DATASETS)
    monkeypatch.setattr("trace_flywheel.flow.pieces.PIECE_CHARS", 600)
    monkeypatch.setattr("trace_flywheel.flow.workers.PATIENCE", 0.0)
    for workers in (1, 2, 3):
        used.clear()
        flow = Flow(root, tmp_path / f"again{workers}", ingest={"workers": workers}, **options)
        flow.run()
        assert published(flow.settings.home) == one
        assert used.count("finish_piece") > 10
        assert "_alone" in used


def sft(number: int, said: str, task: str, wide: int = 1) -> SftRow:
    about = Provenance(said, "sft", task, f"r{number}", (f"t{number}",), "g", "1", (1.0,), (f"p#{'0' * 64}",))
    turns = (Message("user", "q"), Message("assistant", said)) * wide
    return SftRow(said, turns, (), about)


SECRET = "ghp_" + "a1B2" * 9
ROWS = [
    sft(0, sentence(1), "a"),
    sft(1, sentence(2), "b", wide=9),
    sft(2, sentence(1), "c"),
    sft(3, f"use {SECRET} now", "d"),
    sft(4, sentence(2), "e", wide=9),
    sft(5, sentence(3), "f"),
    sft(6, f"use {SECRET} now", "g"),
    sft(7, f"It is {sentence(50)}.", "h"),
    sft(8, sentence(3), "i"),
]
"""Twins beside each other and apart, too large ones, and some that the last gate refuses."""


def finished_in(cuts: tuple[int, ...], folder: Path) -> Iterator[Finished]:
    """The rows in pieces that begin at these rows, each by itself, as other processes would give them."""
    holdout = Holdout([Golden("x", "", sentence(50), "g", 1)], 0.5)
    numbered = [((number,), row) for number, row in enumerate(ROWS)]
    for start, end in zip(cuts, (*cuts[1:], len(ROWS)), strict=True):
        finisher = Finisher(layouts_for("sft", ["trl-sft"]), redactor("standard"), holdout)
        yield from pickle.loads(pickle.dumps(list(finish(numbered[start:end], finisher, folder))))


def made_in(cuts: tuple[int, ...], place: Path) -> tuple[Published, list[bytes]]:
    layouts = layouts_for("sft", ["trl-sft"])
    with drafting(place, "sft_dataset", [one.NAME for one in layouts]) as draft:
        done = add_rows(draft, finished_in(cuts, draft.folder), layouts, Settings(), "sft")
        shards = list(draft.shards())
        for shard in shards:
            write_shard(shard)
        return done, [(draft.folder / shard.path).read_bytes() for shard in shards]


def told(done: Published) -> dict[str, Any]:
    uses = done.uses.row_ids(9).of(np.arange(9)).to_pylist()
    return {**msgspec.structs.asdict(done), "uses": uses}


def test_where_the_work_is_cut_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_flywheel.flow.publish.MAX_LAYOUT_BYTES", 3_000)
    whole, files = made_in((0,), tmp_path / "whole")
    assert whole.uses.row_ids(6).of(np.arange(6)).to_pylist() == [
        [sentence(1)],
        [sentence(2)],
        [],
        [],
        [],
        [sentence(3)],
    ]
    assert {row: (drop.stage, drop.reason) for row, drop in whole.late.items()} == {
        2: ("exact_duplicate", "exact_duplicate"),
        3: ("publish", "finding_after_layout"),
        4: ("exact_duplicate", "exact_duplicate"),
        6: ("publish", "finding_after_layout"),
        7: ("publish", "golden_after_layout"),
        8: ("exact_duplicate", "exact_duplicate"),
    }
    assert whole.late[4].evidence == {"row_id": sentence(2), "kept_run_id": "r1", "kept_trace_ids": ["t1"]}
    assert whole.left_out == {"trl-sft": [sentence(2)]}
    assert (whole.turns, whole.kinds) == (11, {"sft": 3})
    assert sorted(data.count(b"\n") for data in files) == [2, 3]
    for cuts in ((0, 1, 2, 3, 4, 5, 6, 7, 8), (0, 3, 6), (0, 2), (0, 8)):
        cut, its_files = made_in(cuts, tmp_path / str(cuts))
        assert (told(cut), its_files) == (told(whole), files)
