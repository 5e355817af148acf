"""What would be read is listed, what could not be is named, and nothing is written."""

import json
import sys
from pathlib import Path

import pytest

from tests.flow.conftest import trace, write_runs
from trace_flywheel.cli.main import main
from trace_flywheel.sample.write import EVAL_RUN, write_sample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "sample"
    write_sample(folder)
    return folder


def test_each_run_with_format_rollouts_and_problems(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(sample.rglob("*"))
    assert main(["sources", str(sample), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = {run["run_id"]: (run["format"], run["rollouts"], run["problems"]) for run in document["runs"]}
    assert found == {
        "sample/benchflow/claude-code/2025-03-05__14-40-00": ("benchflow", 8, {}),
        "sample/benchflow/opencode/2025-03-04__09-15-00": ("benchflow", 19, {"bad_json": 1}),
        "sample/recordings": ("atraj", 3, {}),
        f"sample/support/runs/{EVAL_RUN}": ("eval_run", 27, {}),
    }
    (problem,) = document["problems"]
    assert problem["path"].endswith("/result.json")
    assert sorted(sample.rglob("*")) == before


def test_lines_for_people_hold_whole_run_ids(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sources", str(sample)]) == 0
    shown = capsys.readouterr().out
    assert "sample/benchflow/opencode/2025-03-04__09-15-00" in shown
    assert "4 runs, 57 rollouts, 1 problems" in shown


def test_a_missing_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sources", str(tmp_path / "nowhere")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "nowhere" in captured.err


def test_a_folder_without_runs_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sources", str(tmp_path)]) == 0
    assert "0 runs" in capsys.readouterr().out


def test_a_bad_row_is_told_with_its_number(tmp_path, capsys):
    rows = [trace("a", "t", 1.0, 1), {**trace("b", "t", 1.0, 2), "reward_vector": "high"}]
    root = write_runs(tmp_path / "data", {"r1": rows})
    assert main(["sources", str(root)]) == 0
    assert "runs/r1/results.json: unknown_shape: row 2: reward_vector is an object" in capsys.readouterr().out
    assert main(["convert", str(root), "--out", str(tmp_path / "rows.jsonl")]) == 0
    assert "runs/r1/results.json:2: unknown_shape (reward_vector" in capsys.readouterr().err


def test_a_narrow_terminal_folds_run_ids_and_cuts_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"{'folder' * 15}-{end}" for end in ("one", "two")]
    write_runs(tmp_path, {name: [trace("a", "b", 1.0, 1)] for name in names})
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["sources", str(tmp_path)]) == 0
    shown = "".join(line[:40].strip() for line in capsys.readouterr().out.splitlines())
    assert "\u2026" not in shown
    assert all(name in shown for name in names)
