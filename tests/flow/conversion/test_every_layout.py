"""Every layout that `convert` writes: the same bytes for one worker and two, and of real jobs rows that validate."""

import json
from pathlib import Path

import pytest

from trace_flywheel.cli.main import main
from trace_flywheel.flow.conversion import convert as conversion
from trace_flywheel.flow.conversion import plan
from trace_flywheel.trainers.registry import layouts

NAMES = sorted(set(layouts()) - {"branch-tree", "trl-dpo"})
"""branch-tree has trials of its own and one process; pairs are in `test_pairs`."""
SCARCE = {"instruct", "skyrl-tokens"}
"""Rows of one question alone, and of trials with token ids."""
REAL = ("benchflow-jobs-skill-lift", "harbor-jobs-refresh")


def converted(jobs: Path, out: Path, name: str, workers: int) -> dict[str, bytes]:
    """Every byte that was written, the manifest's too, by file."""
    out.mkdir()
    paths = ["--out", str(out / "rows"), "--manifest", str(out / "manifest.json")]
    assert main(["convert", str(jobs), *paths, "--format", name, "--workers", str(workers)]) == 0
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.fixture
def spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work goes to other processes at once, a few trials each."""
    monkeypatch.setattr(conversion, "PATIENCE", 0.0)
    monkeypatch.setattr(plan, "PIECE_UNITS", 3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("spread")
def test_one_worker_and_two_write_the_same(tmp_path, benchflow_trial, name):
    for number in range(10):
        answer, asked = f"It is {number}.", f"What is {number // 2}?"
        reward = None if number == 7 else number % 2
        benchflow_trial(tmp_path / "jobs" / "j", f"t{number // 2}__{number}", reward, answer=answer, prompts=(asked,))
    (tmp_path / "jobs" / "j" / "t1__2" / "result.json").write_text("{")
    one, two = (converted(tmp_path / "jobs", tmp_path / str(workers), name, workers) for workers in (1, 2))
    assert one == two
    assert (json.loads(one["manifest.json"])["rows_written"] > 0) is (name not in SCARCE)


@pytest.mark.corpus
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source", REAL)
def test_rows_of_real_jobs_fit_their_layout(corpus, tmp_path, capsys, source, name):
    written = converted(corpus(source), tmp_path / "1", name, 1)
    rows = json.loads(written["manifest.json"])["rows_written"]
    capsys.readouterr()
    code = main(["validate", str(tmp_path / "1" / "rows"), "--format", name])
    said = capsys.readouterr()
    # what two attempts said alike is told twice, and nothing else is wrong
    assert [line for line in said.err.splitlines() if "the same row stands in line" not in line] == []
    if code == 0:
        assert json.loads(said.out)["rows"] == rows
    assert rows > 0 or name in SCARCE
