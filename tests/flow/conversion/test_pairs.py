"""Preference pairs from job folders: the decisions of the dataset, rows that TRL loads."""

import json

import pytest

from trace_flywheel.cli.main import main
from trace_flywheel.flow import ingest
from trace_flywheel.flow.conversion import pairs as convert_pairs
from trace_flywheel.flow.steps import StepResult
from trace_flywheel.trainers.registry import layout

SECRET = "ghp_" + "aB3dE6gH9k" * 4


@pytest.fixture
def job(tmp_path, benchflow_trial):
    folder = tmp_path / "jobs" / "j"
    for number, reward in enumerate((1.0, 0.0, 0.25, 0.5)):
        benchflow_trial(folder, f"t__{number}", reward, answer=f"Answer number {number} with {SECRET}.")
    benchflow_trial(folder, "alone__1", 1.0)
    return folder


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_pair_per_task_with_the_common_prefix(job, tmp_path, capsys):
    out, manifest = tmp_path / "rows.jsonl", tmp_path / "m.json"
    assert main(["convert", str(job), "--format", "trl-dpo", "--out", str(out), "--manifest", str(manifest)]) == 0
    (row,) = rows_of(out)
    assert [m["role"] for m in row["prompt"]] == ["system", "user", "assistant", "tool"]
    assert row["chosen"][0]["content"].startswith("Answer number 0")
    assert row["rejected"][0]["content"].startswith("Answer number 1")
    assert SECRET not in out.read_text()
    assert list(layout("trl-dpo").validate(row)) == []
    assert capsys.readouterr().out.splitlines()[0] == f"Converted 1 row(s) from 5 rollout(s) -> {out}"
    told = json.loads(manifest.read_text())
    assert told["rollouts"] == {"in": 5, "converted": 2, "dropped": 3}
    assert sorted(d["reason"] for d in told["drops"]) == ["no_contrast", *["not_selected_for_pair"] * 2]


def test_one_worker_and_two_write_the_same(tmp_path, benchflow_trial):
    for number in range(8):
        folder = tmp_path / "jobs" / f"j{number % 2}"
        benchflow_trial(folder, f"t{number // 4}__{number}", float(number % 3 == 0), answer=f"It is {number}.")
    written = []
    for workers in ("1", "2"):
        out, manifest = tmp_path / workers / "rows.jsonl", tmp_path / workers / "m.json"
        out.parent.mkdir()
        argv = ["convert", str(tmp_path / "jobs"), "--format", "trl-dpo", "--workers", workers]
        assert main([*argv, "--out", str(out), "--manifest", str(manifest)]) == 0
        written.append((out.read_bytes(), manifest.read_bytes()))
    assert written[0] == written[1]
    assert len(written[0][0].splitlines()) == 2


@pytest.mark.parametrize("wrong", [["--row-mode", "exchange"], ["--no-redact"], ["--min-reward", "1"]])
def test_what_does_not_go_with_pairs(job, tmp_path, capsys, wrong):
    assert main(["convert", str(job), "--format", "trl-dpo", "--out", str(tmp_path / "rows.jsonl"), *wrong]) == 2
    assert wrong[0] in capsys.readouterr().err
    assert not (tmp_path / "rows.jsonl").exists()


def test_an_unreadable_trial_is_told_and_strict_ends(job, tmp_path, capsys):
    (job / "t__3" / "result.json").write_text("{")
    argv = ["convert", str(job), "--format", "trl-dpo", "--out", str(tmp_path / "rows.jsonl")]
    assert main(argv) == 0
    told, summary = capsys.readouterr().err.splitlines()
    assert told == "not converted: j/t__3: bad_json"
    assert summary.startswith("no row at all: group_too_small 3, bad_json 1, no_contrast 1; ")
    assert main([*argv, "--strict"]) == 1


def test_an_unreadable_run_is_told_and_the_rest_converted(job, tmp_path, capsys):
    bad = tmp_path / "jobs" / "bad" / "runs" / "r"
    bad.mkdir(parents=True)
    (bad / "results.json").write_bytes(b'[{"trace_id": "t", "messages": "\xff"}]')
    out, manifest = tmp_path / "rows.jsonl", tmp_path / "m.json"
    argv = ["convert", str(job.parent), "--format", "trl-dpo", "--out", str(out), "--manifest", str(manifest)]
    assert main(argv) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Converted 1 row(s)")
    assert "jobs/bad/runs/r" in captured.err
    assert "bad_encoding" in captured.err
    assert "bad_encoding" in {drop["reason"] for drop in json.loads(manifest.read_text())["drops"]}
    assert main([*argv, "--strict"]) == 1


def test_a_run_whose_ingestion_fails_is_told(job, tmp_path, capsys, monkeypatch):
    def failed(runs, lake, settings, inputs, workers, apart):
        done = ingest.ingest(runs[1:], lake, settings, inputs, workers, apart)
        return (StepResult("graded_traces", runs[0].run_id, "quarantined", None, "it fell over"), *done)

    other = tmp_path / "jobs" / "a-broken"
    (job.parent / "a-broken").mkdir()
    (other / "t__1").mkdir()
    (other / "t__1" / "result.json").write_bytes((job / "t__1" / "result.json").read_bytes())
    monkeypatch.setattr(convert_pairs, "ingest", failed)
    argv = ["convert", str(job), str(other), "--format", "trl-dpo", "--out", str(tmp_path / "rows.jsonl")]
    assert main(argv) == 0
    assert "not converted: a-broken: unreadable_file (it fell over)" in capsys.readouterr().err
    assert main([*argv, "--strict"]) == 1
