"""`flywheel stream` and `flywheel token-coverage`: lines, words, exit codes."""

import json
import os

import pytest

from tests.flow.token_jobs import token_trial
from trace_flywheel.cli.main import main


@pytest.fixture
def job(tmp_path):
    job = tmp_path / "job"
    token_trial(job, "t__1")
    return job


def test_stream_prints_one_json_line_a_rollout(job, capsys):
    assert main(["stream", str(job), "--no-follow"]) == 0
    out = capsys.readouterr()
    (line,) = out.out.splitlines()
    assert list(json.loads(line))[:3] == ["schema_version", "job", "rollout"]
    assert "job: waiting" in out.err


def test_stream_exit_codes(job, capsys, tmp_path):
    assert main(["stream", str(tmp_path / "none"), "--no-follow"]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert main(["stream", str(job), "--timeout", "0"]) == 3
    assert main(["stream", str(job), "--group-by", "task,task"]) == 2
    assert main(["stream", str(job), "--after", "nonsense"]) == 2


def test_coverage_in_words(job, capsys):
    (job / "t__1" / "trajectory" / "llm_trajectory.jsonl").rename(job / "t__1" / "gone")
    token_trial(job, "t__2")
    assert main(["token-coverage", str(job)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "no   t__1: no llm_trajectory.jsonl: the agent's model calls did not go through BenchFlow's gateway"
        " (usage_tracking.endpoint_kind=None)",
        "yes  t__2 [vllm]: 3/3 calls complete, 2/2 prompts extend the previous call",
        "1 of 2 rollouts are training-grade (complete token ids and logprobs, token-in/token-out)",
    ]


def test_coverage_says_what_redaction_took(job, capsys):
    token_trial(job, "t__2", answers=("I look.", "I see.", "ghp_" + "a" * 36))
    assert main(["token-coverage", str(job), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["rollouts"], report["training_grade_rollouts"]) == (2, 1)
    assert report["per_rollout"][1]["unavailable"] == {"completion_token_ids:redacted": 1, "logprobs:redacted": 1}


def test_a_trial_without_a_readable_result_has_no_coverage(job, capsys):
    (job / "t__1" / "result.json").write_text("{")
    assert main(["token-coverage", str(job), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["per_rollout"]
    assert (told["training_grade"], told["status"]) == (False, "unreadable_capture")
    assert told["reason"].startswith("result.json: ")


def test_coverage_of_nothing(tmp_path, capsys):
    assert main(["token-coverage", str(tmp_path / "none")]) == 2
    assert "no such path" in capsys.readouterr().err
    (tmp_path / "file.jsonl").write_text("{}\n")
    assert main(["token-coverage", str(tmp_path / "file.jsonl")]) == 2
    assert "file.jsonl: is no folder; give a job folder" in capsys.readouterr().err
    assert main(["token-coverage", str(tmp_path), "--json"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, "no result.json found here" in printed.err) == ("", True)


def test_a_stream_of_no_job_is_bad_input(tmp_path, capsys):
    (tmp_path / "notes").mkdir()
    assert main(["stream", str(tmp_path), "--no-follow"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, "holds no trial; give a job folder" in printed.err) == ("", True)
    assert main(["stream", str(tmp_path), "--timeout", "0"]) == 3  # one that follows may wait for a job to begin


@pytest.mark.parametrize("name", ["evaluation.json", "summary.json"])
def test_a_job_without_a_finished_trial_is_none_the_less_a_job(name, tmp_path, capsys):
    (tmp_path / name).write_text("{}")
    assert main(["stream", str(tmp_path), "--no-follow"]) == 0
    assert capsys.readouterr().out == ""


def test_a_folder_whose_name_is_not_utf_8_stops_neither_stream_nor_coverage(job, capsys):
    token_trial(job, "t__2")
    (job / "t__2").rename(job / os.fsdecode(b"t\xff__2"))
    assert main(["stream", str(job), "--no-follow"]) == 0
    out = capsys.readouterr()
    assert [json.loads(line)["rollout"] for line in out.out.splitlines()] == ["t__1"]
    assert r"t\xff__2/result.json: bad_encoding (the path is not UTF-8; rename it)" in out.err
    assert main(["token-coverage", str(job)]) == 0
    assert r"no   t\xff__2: result.json: the path is not UTF-8; rename it" in capsys.readouterr().out.splitlines()


def test_a_job_whose_name_is_not_utf_8_is_refused_in_one_line(job, capsys):
    bad = job.rename(job.parent / os.fsdecode(b"j\xff"))
    assert main(["stream", str(bad), "--no-follow"]) == 2
    assert capsys.readouterr().err == f"flywheel: {job.parent}/j\\xff: the path is not UTF-8; rename it\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
@pytest.mark.parametrize(("closed", "told"), [("t__2", 1), ("t__2/trajectory", 2)])
def test_a_folder_that_may_not_be_read_stops_nothing(job, closed, told, capsys):
    token_trial(job, "t__2")
    (job / closed).chmod(0)
    assert main(["stream", str(job), "--no-follow"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == told
    assert main(["token-coverage", str(job)]) == 0
    assert f"1 of {told} rollouts are training-grade" in capsys.readouterr().out
    (job / closed).chmod(0o700)
