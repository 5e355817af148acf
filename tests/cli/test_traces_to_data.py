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
        (["--minhash-threshold", "nan"], "--minhash-threshold"),
        (["--minhash-threshold", "inf"], "finite"),
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


def test_held_out_rows_go_to_a_file_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(12):
        record(tmp_path / "in", f"r{i}", user(f"what is {' '.join(f'w{i}{j}' for j in range(9))}?"), answer(f"{i}"))
    out, held = tmp_path / "out.jsonl", tmp_path / "held.jsonl"
    words = ["traces-to-data", str(tmp_path / "in"), "--out", str(out), "--held-out", str(held)]
    assert main([*words, "--held-out-share", "0.5"]) == 0
    n = len(rows_of(held))
    assert 0 < n < 12
    assert f"wrote {12 - n} rows -> {out}, {n} held out -> {held}" in capsys.readouterr().out.splitlines()
    ids = [{row["rollout_id"] for row in rows_of(path)} for path in (out, held)]
    assert not ids[0] & ids[1]
    assert ids[0] | ids[1] == {f"r{i}" for i in range(12)}


@pytest.mark.parametrize("share", ["0", "1", "nan", "1.5"])
def test_a_share_that_holds_nothing_or_all_out_is_wrong_usage(tmp_path: Path, share: str) -> None:
    words = ["traces-to-data", str(tmp_path), "--out", str(tmp_path / "o"), "--held-out", str(tmp_path / "h")]
    assert main([*words, "--held-out-share", share]) == 2


def test_outputs_must_be_different_files(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out.jsonl")
    for option in ("--held-out", "--judge-requests"):
        assert main(["traces-to-data", str(folder), "--out", out, option, str(tmp_path / "." / "out.jsonl")]) == 2
        assert option in capsys.readouterr().err
        assert not (tmp_path / "out.jsonl").exists()


def test_corrections_that_correct_nothing_are_named_with_their_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path / "in", "a", user("q"), answer("x"))
    record(tmp_path / "in", "b", user("r"), answer("y"))
    fixes = tmp_path / "fixes.jsonl"
    lines = [{"trace_id": "a", "content": "one"}, {"trace_id": "a", "content": "two"}]
    fixes.write_text("\n".join(map(json.dumps, [*lines, {"trace_id": "b", "content": "z", "turn": 9}])))
    asked = ["traces-to-data", str(tmp_path / "in"), "--out", str(tmp_path / "o.jsonl"), "--corrections", str(fixes)]
    assert main(asked) == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [
        f"not used: {fixes}:1: superseded: of a: line 2 corrects the same recording",
        f"not used: {fixes}:3: no_such_turn: of b: names turn 9, the recording has 1 assistant turns",
    ]
    assert "  corrections not used, no_such_turn: 1\n  corrections not used, superseded: 1" in printed.out
    assert "  not harvested, mask_mismatch: 1" in printed.out
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["line"], one["of"], one["reason"]) for one in told["corrections_unused"]] == [
        (1, "a", "superseded"),
        (3, "b", "no_such_turn"),
    ]


def test_a_file_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.atraj").write_text("{}")
    assert main(["traces-to-data", str(tmp_path / "one.atraj"), "--out", str(tmp_path / "o")]) == 1
    assert "one.atraj: is no folder; give" in capsys.readouterr().err
