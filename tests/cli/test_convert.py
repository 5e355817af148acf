"""`flywheel convert` as a user meets it: output lines, exit codes, nothing written on wrong usage."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from trace_flywheel.cli.main import main
from trace_flywheel.sample.write import write_sample


@pytest.fixture
def jobs(tmp_path: Path, benchflow_trial) -> Path:
    for number, reward in enumerate((0.0, 1.0)):
        benchflow_trial(tmp_path / "jobs" / "2026-11-01", f"t__{number}", reward)
    return tmp_path / "jobs"


def test_the_lines_on_stdout(jobs, tmp_path, capsys):
    out, manifest = tmp_path / "new" / "rows.jsonl", tmp_path / "m.json"
    argv = ["convert", str(jobs), "--out", str(out), "--manifest", str(manifest), "--group-advantage", "grpo"]
    assert main([*argv, "--group-by", "task,agent,model", "--workers", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"Converted 2 row(s) from 2 rollout(s) -> {out}",
        "Groups (grpo, by task,agent,model): 1; 0 unscored rollout(s) left out of every baseline.",
        f"Stats: {manifest}",
    ]
    document = json.loads(manifest.read_text())
    assert (document["rollouts_seen"], document["rows_written"], document["rows_with_tool_calls"]) == (2, 2, 2)
    assert document["rollouts"] == {"in": 2, "converted": 2, "dropped": 0}
    assert [len(i["sha256"]) for i in document["inputs"]] == [64, 64]
    assert document["training_signal"]["groups"][0]["members"][1]["advantage"] == pytest.approx(0.70700679)


@pytest.fixture
def written(jobs, tmp_path):
    """The rows, as bytes, that `convert` writes of two trials of two turns each with these flags."""

    def rows(*flags: str) -> bytes:
        out = tmp_path / "rows.jsonl"
        assert main(["convert", str(jobs), "--out", str(out), *flags]) == 0
        return out.read_bytes()

    return rows


def test_compat_benchflow_is_its_window_and_in_exchange_mode_its_helpers(written):
    window, helpers = ("--context", "last-turn"), "--include-helpers"
    exchange = ("--row-mode", "exchange")
    assert written("--compat", "benchflow") == written(*window) != written()
    assert written("--compat", "benchflow", *exchange) == written(*window, helpers, *exchange)
    trl = ("--format", "trl-sft", *exchange)
    assert written("--compat", "benchflow", *trl) == written(*trl)


def test_a_policy_version_parts_groups_where_the_source_names_none(jobs, tmp_path, capsys):
    out = tmp_path / "rows.jsonl"
    argv = ["convert", str(jobs), "--out", str(out), "--group-advantage", "loo", "--policy-version", "step-40"]
    assert main([*argv, "--group-by", "task,task_digest,policy_version"]) == 0
    assert "Groups (loo, by task,task_digest,policy_version): 1; 0" in capsys.readouterr().out
    groups = [json.loads(line)["group"] for line in out.read_text().splitlines()]
    assert [g["id"] for g in groups] == ["task=t|task_digest=null|policy_version=step-40"] * 2


@pytest.mark.parametrize("name", ["prime-sft", "trl-sft", "messages"])
def test_what_convert_writes_validates(jobs, tmp_path, capsys, name):
    out = str(tmp_path / "rows.jsonl")
    assert main(["convert", str(jobs), "--out", out, "--format", name, "--row-mode", "exchange"]) == 0
    capsys.readouterr()
    assert main(["validate", out, "--format", name]) == 0
    assert json.loads(capsys.readouterr().out) == {"format": name, "ok": True, "rows": 4, "rows_with_tool_calls": 4}


@pytest.mark.parametrize(
    "wrong",
    [
        ["--format", "nope"],
        ["--row-mode", "step"],
        ["--group-by", "task,task"],
        ["--group-by", "colour"],
        ["--min-reward", "nan"],
        ["--compat", "openai"],
        ["--context-policy", "message-window"],
        ["--context-policy", "message-window", "--format", "trl-sft", "--tokenizer", "t"],
        ["--max-length", "10", "--format", "trl-sft"],
        ["--compat", "benchflow", "--format", "openai-ft"],
        ["--dedup-against", "x.jsonl", "--format", "trl-dpo"],
        ["--policy-version", "1", "--format", "branch-tree"],
        ["--min-reward", "much"],
        ["--frmat", "prime-sft"],
    ],
)
def test_wrong_usage_exits_2_and_writes_nothing(jobs, tmp_path, wrong, capsys):
    assert main(["convert", str(jobs), "--out", str(tmp_path / "rows.jsonl"), *wrong]) == 2
    assert not (tmp_path / "rows.jsonl").exists()
    assert wrong[0] in capsys.readouterr().err


def test_a_failure_is_one_line_and_exits_1(tmp_path, capsys):
    assert main(["convert", str(tmp_path / "nope"), "--out", str(tmp_path / "rows.jsonl")]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "nope" in err
    assert not (tmp_path / "rows.jsonl").exists()


def test_help_imports_nothing_heavy_and_takes_no_time():
    """0.1 s on a quiet machine. Held is the processor's time, best of three: a busy machine stretches the other."""
    code = (
        "import sys; from trace_flywheel.cli.main import main; main(['convert', '--help']);"
        "heavy = {'pandas', 'numpy', 'numba', 'dagster', 'pyarrow', 'pydantic', 'pydantic_settings', 'orjson', 'rich'};"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    took = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        assert done.returncode == 0, done.stderr
    assert "--group-advantage" in done.stdout
    assert min(took) < 0.3


def test_outputs_are_checked_before_anything_is_written(jobs, tmp_path, capsys):
    out = tmp_path / "rows.jsonl"
    assert main(["convert", str(jobs), "--out", str(out), "--manifest", str(out)]) == 2
    assert main(["convert", str(jobs), "--out", str(out), "--manifest", str(tmp_path)]) == 1
    assert "is a folder; give --manifest the name of a file" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("name", ["prime-sft", "trl-dpo"])
def test_rows_on_stdout(jobs, tmp_path, capfd, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert main(["convert", str(jobs), "--out", "rows.jsonl", "--format", name]) == 0
    capfd.readouterr()
    assert main(["convert", str(jobs), "--out", "-", "--format", name, "--manifest", "m.json"]) == 0
    captured = capfd.readouterr()
    assert captured.out == (tmp_path / "rows.jsonl").read_text()
    assert captured.err.splitlines()[-1] == "Stats: m.json"
    assert not (tmp_path / "-").exists()


CONTRACT = (
    *("prime-sft", "trl-sft", "trl-dpo", "kto", "instruct", "verl-sft", "skyrl-sft", "openenv-episodes"),
    *("openai-ft", "rl-prompts", "verifiers", "atif", "adp", "messages"),
)
"""Every format but branch-tree, whose rows come of branched trials (tests/flow/conversion/test_branch_tree.py)."""


@pytest.mark.parametrize("name", CONTRACT)
def test_every_format_of_the_sample_validates(name, tmp_path, capsys):
    write_sample(tmp_path / "jobs")
    out = tmp_path / ("rows" if name == "openenv-episodes" else "rows.jsonl")
    assert main(["convert", str(tmp_path / "jobs"), "--out", str(out), "--format", name]) == 0
    capsys.readouterr()
    assert main(["validate", str(out), "--format", name]) in (0, 1)
    told = capsys.readouterr()
    faults = [line for line in told.err.splitlines() if "the same row stands" not in line]
    assert faults == []
    assert out.exists()


def unnameable(folder: Path, benchflow_trial) -> Path:
    """A job of two trials, one in a folder whose name is not UTF-8."""
    for name in ("t__1", "t__2"):
        benchflow_trial(folder / "job", name, 1.0)
    (folder / "job" / "t__2").rename(folder / "job" / os.fsdecode(b"t\xff__2"))
    return folder / "job"


def test_a_folder_whose_name_is_not_utf_8_costs_its_rollout_alone(tmp_path, benchflow_trial, capsys):
    job = unnameable(tmp_path / "jobs", benchflow_trial)
    out, manifest = tmp_path / "rows.jsonl", tmp_path / "m.json"
    assert main(["convert", str(job), "--out", str(out), "--manifest", str(manifest), "--workers", "1"]) == 0
    place = f"{job}/t\\xff__2"
    assert capsys.readouterr().err == f"not converted: {place}: bad_encoding (the path is not UTF-8; rename it)\n"
    assert [json.loads(row)["task_name"] for row in out.read_text().splitlines()] == ["t"]
    document = json.loads(manifest.read_text())
    assert document["rollouts"] == {"in": 2, "converted": 1, "dropped": 1}
    (drop,) = document["drops"]
    assert (drop["rollout"], drop["reason"], drop["trace_id"]) == (place, "bad_encoding", "t\\xff__2")


def test_below_a_root_whose_name_is_not_utf_8_no_row_is_made_and_each_is_told(tmp_path, benchflow_trial, capsys):
    job = unnameable(tmp_path / "jobs", benchflow_trial)
    root = job.parent.rename(tmp_path / os.fsdecode(b"r\xfe"))
    manifest = tmp_path / "m.json"
    assert main(["convert", str(root), "--out", str(tmp_path / "rows.jsonl"), "--manifest", str(manifest)]) == 0
    assert "no row at all: bad_encoding 2\n" in capsys.readouterr().err
    assert json.loads(manifest.read_text())["rollouts"] == {"in": 2, "converted": 0, "dropped": 2}


def test_no_row_at_all_says_why(jobs, tmp_path, capsys):
    argv = ["convert", str(jobs), "--out", str(tmp_path / "rows.jsonl"), "--min-reward", "2"]
    assert main(argv) == 0
    assert capsys.readouterr().err == "no row at all: reward 2; --manifest FILE says which rollout and why\n"
    assert main([*argv, "--manifest", str(tmp_path / "m.json")]) == 0
    assert capsys.readouterr().err == "no row at all: reward 2\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
@pytest.mark.parametrize("closed", ["", "trajectory"])
def test_a_trial_that_may_not_be_read_is_told_and_counted(jobs, tmp_path, closed, capsys):
    trial = jobs / "2026-11-01" / "t__1"
    (trial / closed).chmod(0)
    manifest = tmp_path / "m.json"
    argv = ["convert", str(jobs), "--out", str(tmp_path / "rows.jsonl"), "--manifest", str(manifest)]
    assert main([*argv, "--workers", "1"]) == 0
    (trial / closed).chmod(0o700)
    place = f"{trial}/trajectory" if closed else f"{trial}/result.json"
    assert capsys.readouterr().err == f"not converted: {place}: unreadable_file (Permission denied)\n"
    document = json.loads(manifest.read_text())
    assert document["rollouts"] == {"in": 2, "converted": 1, "dropped": 1}
    assert [drop["trace_id"] for drop in document["drops"]] == ["t__1"]
