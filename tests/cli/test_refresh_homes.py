"""Homes that are empty, odd, shared or in the way: words and the same result, never a traceback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flow.conftest import group, write_runs
from trace_flywheel.cli.main import main
from trace_flywheel.trainers.registry import layouts

CHECKOUT = Path(__file__).parents[2]


def refreshing(root: Path, home: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "trace_flywheel.cli.main", "refresh", "--json", "--root", str(root)]
    command += ["--home", str(home)]
    return subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_refreshes_of_a_fresh_home_do_the_work_once(tmp_path: Path) -> None:
    root = write_runs(tmp_path / "data", {"r": group("a", (1.0, 0.0), 1)})
    both = [refreshing(root, tmp_path / "home") for _ in range(2)]
    said = [one.communicate(timeout=300) for one in both]
    assert [one.returncode for one in both] == [0, 0]
    documents = [json.loads(out) for out, _ in said]
    assert sorted(d["runs"]["ingested"] for d in documents) == [0, 1]
    assert documents[0]["datasets"] == documents[1]["datasets"]
    assert sum("waiting for it" in err for _, err in said) <= 1


@pytest.mark.parametrize("words", [["datasets"], ["ledger", "x"], ["why", "x"], ["refresh", "--root", "."]])
def test_a_home_that_is_a_file_is_told(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "home").write_text("x")
    assert main([*words, "--home", str(tmp_path / "home")]) == 1
    assert "the home is a file" in capsys.readouterr().err


def test_datasets_without_a_row_are_shown_and_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_runs(tmp_path / "data", {"r": group("a", (0.0,), 1)})
    home = ["--home", str(tmp_path / "home")]
    assert main(["refresh", "--root", str(root), *home]) == 0
    for name in ("sft_dataset", "balanced_mix"):
        assert main(["ledger", name, *home]) == 0
        for layout in (one.NAME for one in layouts().values() if "sft" in one.KINDS):
            assert main(["export", name, "--format", layout, "--out", str(tmp_path / name / layout), *home]) == 0
    assert main(["why", "a-0", *home]) == 0
    capsys.readouterr()
    (root / "runs" / "r").rename(root / "runs" / "moved")
    assert main(["refresh", "--root", str(root), "--json", *home]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["runs"]["gone"] == 1
    assert "data/runs/r: its folder is gone; what was read from it stays" in shown.err
