"""`flywheel traces-to-data`: refusals in their order, exit codes, the report as text and as JSON."""

import json
from pathlib import Path

import pytest

from tests.recordings import answer, record, rows_of, user
from trace_flywheel.cli.main import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    record(tmp_path / "in", "a", user("q"), answer("x"), task="t")
    record(tmp_path / "in", "b", user("q"), answer("x"))
    (tmp_path / "in" / "torn.atraj").write_text("{")
    return tmp_path / "in"


def test_rows_report_and_the_bad_file_by_name(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.jsonl"
    assert main(["traces-to-data", str(folder), "--out", str(out), "--task", "all"]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[:5] == [f"in: {folder} (3 files)", f"out: {out}", "task: all", "mode: sft", "export: answer-only"]
    assert lines[8:16] == [
        f"wrote 1 rows -> {out}",
        "filter summary",
        "  trajectories scanned: 3",
        "  trajectories failed: 1",
        "  raw rows harvested: 2",
        "  exact-duplicates dropped: 1",
        "  minhash near-duplicates dropped: 0",
        "  emitted: 1",
    ]
    assert printed.err.startswith("not used: torn.atraj: read/bad_json: ")
    assert [row["task"] for row in rows_of(out)] == ["all"]


def test_one_json_document(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.jsonl"
    assert main(["traces-to-data", str(folder), "--out", str(out), "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["emitted"], told["dry_run"], told["failed"][0]["path"]) == (1, True, "torn.atraj")
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--mode"], "--mode"),
        (["--no-such-flag"], "--no-such-flag"),
        (["second"], "second"),
        (["--mode", "rl", "--judge-model", "m"], "'rl' is not supported; sft, dpo or kto is"),
        (["--mode", "dpo", "--compat", "posttrainllm"], "'dpo' is not supported; sft is"),
        (["--export", "all", "--judge-model", "m"], "'all' is none of answer-only, trajectory"),
        (["--judge-model", "m"], "no model is called here"),
        (["--compat", "other"], "posttrainllm and posttrainllm-ids are"),
        (["--minhash-threshold", "much"], "--minhash-threshold"),
        (["--minhash-threshold", "nan"], "finite"),
        (["--judge-threshold", "2"], "'2' is no number from 0 to 1"),
        (["--min-signal", "luck=1"], "'luck' is none of arguments_valid"),
        (["--compat", "posttrainllm", "--task-filter", "t"], "--task-filter"),
    ],
)
def test_refusals_read_and_write_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    """The folder does not exist: reading would fail with another code."""
    out = tmp_path / "out.jsonl"
    assert main(["traces-to-data", str(tmp_path / "none"), "--out", str(out), *options]) == 2
    assert says in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not out.exists()


@pytest.mark.parametrize("argv", [[], ["in"], ["--out", "o"], ["--dry-run", "in"]])
def test_folder_and_out_are_needed_also_for_a_dry_run(argv: list[str]) -> None:
    assert main(["traces-to-data", *argv]) == 2


def test_failures_are_one_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traces-to-data", str(tmp_path / "none"), "--out", str(tmp_path / "o")]) == 1
    assert main(["traces-to-data", str(folder), "--out", str(tmp_path)]) == 1
    assert main(["traces-to-data", str(folder), "--out", str(folder / "a.atraj" / "o")]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_options_of_the_originals_sketch_say_where_they_work(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [
        "traces-to-data",
        str(folder),
        "--out",
        str(tmp_path / "o"),
        "--minhash-shingle",
        "3",
        "--minhash-perms",
        "8",
    ]
    assert main(argv) == 0
    assert "no effect without --compat posttrainllm" in capsys.readouterr().err
    assert main([*argv, "--compat", "posttrainllm"]) == 0
    printed = capsys.readouterr()
    assert "no effect" not in printed.err
    assert "near-duplicates: threshold 0.85 (posttrainllm, k 3, 8 permutations)" in printed.out
