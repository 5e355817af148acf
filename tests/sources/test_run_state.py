"""What is known of a run from a listing of its files."""

import os
from pathlib import Path

import pytest

from trace_flywheel.sources import run_state
from trace_flywheel.sources.reader import Run
from trace_flywheel.sources.run_state import is_within


def run_of(path: Path, *sizes: int) -> Run:
    (path / "deep").mkdir(parents=True)
    for number, size in enumerate(sizes):
        (path / "deep" / f"{number}.json").write_bytes(b"x" * size)
    return Run(path.name, "eval", path.parent, path)


def test_runs_are_within_a_size_that_their_files_have_together(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / "a", 10, 20), run_of(tmp_path / "b", 30)]
    assert is_within(runs, 60)
    assert not is_within(runs, 59)
    assert is_within(runs[:1], 30)
    assert is_within([], 0)
    assert not is_within([], -1)


def test_a_run_that_is_a_file_and_links_and_what_vanished_are_counted_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"x" * 50)
    assert not is_within([Run("rows", "eval", tmp_path, file)], 49)
    assert is_within([Run("rows", "eval", tmp_path, file)], 50)
    linked = run_of(tmp_path / "linked")
    (linked.path / "far").symlink_to(file)
    assert is_within([linked], len(str(file))), "what a link names is none of the run's"
    assert is_within([Run("gone", "eval", tmp_path, tmp_path / "gone")], 0)


def test_nothing_is_looked_at_beyond_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(tmp_path / "a", *[10] * 100)
    looked: list[str] = []
    lstat = os.lstat
    monkeypatch.setattr(run_state.os, "lstat", lambda path: looked.append(path) or lstat(path))
    assert not is_within([run], 25)
    assert len([path for path in looked if path.endswith(".json")]) == 3
