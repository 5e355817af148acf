"""The stream of a job that is written while it is read: order, groups, retries, resumption, ends."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.flow.token_jobs import token_trial, write_result
from trace_flywheel.flow.stream.follow import DIED, FINISHED, TIMED_OUT, Request, Stream
from trace_flywheel.records.errors import FlywheelError


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "2026-11-04__12-00-00"
    folder.mkdir()
    return folder


def stream(job, **values):
    values = {"follow": False, "pii": "standard", **values}
    warnings = []
    reading = Stream(Request(job, **values), warnings.append)
    return list(reading), reading.exit_code, warnings


def names(records):
    return [record.rollout for record in records]


def finish(job):
    (job / "summary.json").write_text("{}")


def in_order(*trials):
    for second, trial in enumerate(trials, start=1_700_000_000):
        os.utime(trial / "result.json", (second, second))


def test_records_come_in_the_order_of_their_results(job):
    trials = [token_trial(job, name) for name in ("t__3", "t__1", "t__2")]
    in_order(*trials)
    records, code, _ = stream(job)
    assert names(records) == ["t__3", "t__1", "t__2"]
    assert code == FINISHED
    assert {record.job for record in records} == {job.name}
    assert records[0].group_id == f"task=t|agent=opencode|model=vllm/p|job={job.name}"


def test_a_record_holds_calls_sequences_and_segments(job):
    token_trial(job, "t__1", failed=1)
    ((record,), _, _) = stream(job)
    assert [call.index for call in record.calls] == [1, 2, 3]
    assert record.segments[0].completion_ids == [10, 11, 20, 30, 40, 50, 51]
    assert record.tokens.status == "exact"
    assert [(c.index, c.status, c.retried_by, c.retry_of) for c in record.tokens.calls[:2]] == [
        (0, "failed", 1, None),
        (1, "ok", None, 0),
    ]
    assert record.tokens.failed_attempts.retried == 1
    # a failed attempt has no tokens, so not all calls are complete
    assert not record.token_capture.training_grade
    assert record.sequences == []


def test_token_ids_of_redacted_text_never_leave(job):
    secret = "ghp_" + "a" * 36
    token_trial(job, "t__1", answers=("I look.", f"The key is {secret}.", "Done."))
    ((record,), _, _) = stream(job)
    first, second, third = record.calls
    assert first.completions[0].token_ids == [10, 11]
    assert second.prompt_token_ids == [1, 2, 3, 10, 11, 20]
    assert second.completions == []
    assert second.unavailable["completion_token_ids"]["reason"] == "redacted"
    assert third.prompt_token_ids is None  # it repeats the answer before it
    assert third.unavailable["prompt_token_ids"]["reason"] == "redacted"
    assert third.completions[0].token_ids == [50, 51]
    assert not record.token_capture.training_grade
    assert record.token_capture.unavailable == {
        "completion_token_ids:redacted": 1,
        "logprobs:redacted": 1,
        "prompt_token_ids:redacted": 1,
    }
    assert [segment.calls for segment in record.segments] == [[0]]
    assert [call.digest is None for call in record.tokens.calls] == [False, True, True]
    assert secret not in msgspec.json.encode(record).decode()


def test_a_secret_in_the_prompt_takes_every_prompt_but_no_answer(job):
    secret = "ghp_" + "b" * 36
    trial = token_trial(job, "t__1")
    capture = trial / "trajectory" / "llm_trajectory.jsonl"
    capture.write_text(capture.read_text().replace("Measure it.", f"Use {secret}."))
    ((record,), _, _) = stream(job)
    assert [call.prompt_token_ids for call in record.calls] == [None, None, None]
    assert [call.completions[0].token_ids for call in record.calls] == [[10, 11], [30], [50, 51]]
    assert record.segments == []


def test_choices_whose_text_was_never_scanned_stay_here(job):
    both = [{"index": i, "token_ids": [60 + i], "logprobs": [-0.5]} for i in range(2)]
    token_trial(job, "t__1", capture={"completions": both})
    ((record,), _, _) = stream(job)
    assert [completion.index for completion in record.calls[0].completions] == [0]
    assert record.tokens.calls[0].unused_choices == 1


def test_an_unreadable_capture_still_gives_its_record(job):
    trial = token_trial(job, "t__1")
    (trial / "trajectory" / "llm_trajectory.jsonl").write_text("{broken\n{}\n")
    ((record,), _, _) = stream(job)
    assert record.token_capture.status == "unreadable_capture"
    assert record.token_capture.reason.startswith("line 1: bad_json")
    assert (record.reward, record.calls, record.tokens.status) == (1.0, [], "none")


def test_a_capture_cut_in_its_last_line_is_not_of_training_grade(job):
    capture = token_trial(job, "t__1") / "trajectory" / "llm_trajectory.jsonl"
    ((whole,), _, _) = stream(job)
    capture.write_bytes(capture.read_bytes() + b'\n{"request": {"bo')
    ((record,), _, _) = stream(job)
    assert (whole.token_capture.training_grade, len(whole.sequences)) == (True, 1)
    assert (record.token_capture.training_grade, record.sequences) == (False, [])
    assert record.token_capture.reason == "line 4 of the capture is cut: Input data was truncated"


def test_error_texts_are_redacted(job):
    secret = "ghp_" + "c" * 36
    token_trial(job, "t__1", reward=None, error=f"push failed with {secret}", error_category="api_error")
    ((record,), _, _) = stream(job)
    assert record.error == "push failed with [REDACTED:github_token:1]"
    assert (record.outcome, record.scored) == ("errored", False)


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ({"reward": 1.0, "error": "late", "error_category": "timeout"}, "passed"),
        ({"reward": 0.99}, "failed"),
        ({"reward": None, "error": "sandbox", "error_category": "sandbox_setup"}, "errored"),
        ({"reward": None, "verifier_error": "no reward"}, "verifier_errored"),
        ({"reward": float("nan")}, "verifier_errored"),
    ],
)
def test_outcomes(job, values, outcome):
    token_trial(job, "t__1", **values)
    ((record,), _, _) = stream(job)
    assert record.outcome == outcome


def test_an_unreadable_result_is_told_once_and_the_rest_goes_on(job):
    token_trial(job, "t__1")
    (token_trial(job, "t__2") / "result.json").write_text('{"task_name": ')
    records, code, warnings = stream(job)
    assert names(records) == ["t__1"]
    assert code == FINISHED
    assert sum("t__2/result.json: bad_json" in text for text in warnings) == 1


def test_reviewer_runs_are_no_rollouts(job):
    token_trial(job, "t__1")
    token_trial(job, "t__2", purpose="reviewer")
    assert names(stream(job)[0]) == ["t__1"]


class TestGroups:
    def test_a_group_is_printed_whole_with_advantages(self, job):
        rewards = {"t__1": 0.0, "t__2": 1.0, "t__3": 0.0}
        in_order(*[token_trial(job, name, reward=reward) for name, reward in rewards.items()])
        records, _, _ = stream(job, group_size=3)
        assert [record.advantage for record in records] == pytest.approx([-0.57725, 1.15450, -0.57725], abs=1e-5)
        assert [record.group_complete for record in records] == [True] * 3

    def test_leftovers_come_last_and_have_no_advantage(self, job):
        finish(job)
        trials = [token_trial(job, name) for name in ("a__1", "b__1", "a__2")]
        in_order(*trials)
        records, _, _ = stream(job, group_size=2)
        assert names(records) == ["a__1", "a__2", "b__1"]
        assert (records[2].group_complete, records[2].advantage) == (False, None)

    def test_an_unscored_member_withholds_its_group(self, job):
        token_trial(job, "t__1")
        token_trial(job, "t__2", reward=None)
        records, _, _ = stream(job, group_size=2)
        assert [(r.advantage, r.group_complete) for r in records] == [(None, True)] * 2

    def test_group_keys_are_the_users(self, job):
        token_trial(job, "a__1")
        token_trial(job, "b__1")
        records, _, _ = stream(job, group_size=2, group_by=("agent",))
        assert records[0].group == {"agent": "opencode"}
        assert [r.group_complete for r in records] == [True, True]

    def test_a_trial_that_may_be_retried_waits_for_its_retry(self, job):
        (job / "evaluation.json").write_text(json.dumps({"config": {"retry": {"max_retries": 1}}}))
        finish(job)
        lost = {"reward": None, "error": "sandbox", "error_category": "sandbox_setup"}
        in_order(token_trial(job, "t__1", **lost), token_trial(job, "t__2"))
        records, _, _ = stream(job, group_size=1)
        assert [(r.rollout, r.retried, r.replaces) for r in records] == [("t__1", True, None), ("t__2", False, "t__1")]
        assert [r.group_complete for r in records] == [None, True]

    def test_one_that_is_never_retried_is_a_member_in_the_end(self, job):
        (job / "evaluation.json").write_text(json.dumps({"config": {"retry": {"max_retries": 1}}}))
        finish(job)
        token_trial(job, "t__1", reward=None, error="sandbox", error_category="sandbox_setup")
        ((record,), _, _) = stream(job, group_size=1)
        assert (record.retried, record.group_complete) == (False, True)


class TestCursor:
    def test_a_stream_goes_on_behind_its_cursor(self, job):
        in_order(*[token_trial(job, name) for name in ("t__1", "t__2", "t__3")])
        records, _, _ = stream(job)
        assert names(stream(job, after=records[1].cursor)[0]) == ["t__3"]
        assert stream(job, after=records[2].cursor)[0] == []

    def test_a_result_older_than_the_cursor_is_not_missed(self, job):
        token_trial(job, "t__2")
        ((record,), _, _) = stream(job)
        in_order(token_trial(job, "t__1"))  # copied in with an old time
        assert names(stream(job, after=record.cursor)[0]) == ["t__1"]

    def test_a_changed_result_is_printed_again_and_says_so(self, job):
        trial = token_trial(job, "t__1", reward=None)
        ((record,), _, _) = stream(job)
        write_result(trial, reward=0.5)
        ((again,), _, _) = stream(job, after=record.cursor)
        assert (again.replaces, again.reward) == ("t__1", 0.5)
        assert stream(job, after=again.cursor)[0] == []

    def test_a_changed_member_of_a_printed_group_is_in_no_whole_one(self, job):
        trials = [token_trial(job, name, reward=0.0) for name in ("t__1", "t__2")]
        records, _, _ = stream(job, group_size=2)
        write_result(trials[0], reward=1.0)
        ((again,), _, _) = stream(job, group_size=2, after=records[-1].cursor)
        assert (again.replaces, again.group_complete, again.advantage) == ("t__1", False, None)

    def test_a_reader_that_stopped_inside_a_group_gets_it_whole(self, job):
        for name in ("t__1", "t__2"):
            token_trial(job, name)
        first, second = stream(job, group_size=2)[0]
        assert len(stream(job, group_size=2, after=first.cursor)[0]) == 2
        assert stream(job, group_size=2, after=second.cursor)[0] == []

    def test_leftovers_of_a_running_job_wait_again(self, job):
        token_trial(job, "t__1")
        ((left,), _, _) = stream(job, group_size=2)
        token_trial(job, "t__2")
        records, _, _ = stream(job, group_size=2, after=left.cursor)
        assert [r.group_complete for r in records] == [True, True]

    @pytest.mark.parametrize("text", ["", "2.abc", "1.abc", "1.!!!!", "not one"][1:])
    def test_what_is_no_cursor_is_refused(self, job, text):
        with pytest.raises(FlywheelError, match="--after: is no cursor"):
            stream(job, after=text)

    @pytest.mark.parametrize("damage", [lambda c: c + "x", lambda c: c[:-1], lambda c: c + "=", lambda c: c + c[2:]])
    def test_a_damaged_cursor_is_refused(self, job, damage):
        token_trial(job, "t__1")
        ((record,), _, _) = stream(job)
        with pytest.raises(FlywheelError, match="--after: is no cursor"):
            stream(job, after=damage(record.cursor))

    def test_another_jobs_cursor_is_refused(self, job, tmp_path):
        token_trial(job, "t__1")
        ((record,), _, _) = stream(job)
        other = tmp_path / "other"
        other.mkdir()
        with pytest.raises(FlywheelError, match="of another job than other"):
            stream(other, after=record.cursor)


class TestEnds:
    def lock(self, job, pid, host=None):
        (job / ".evaluation.lock").write_text(json.dumps({"pid": pid, "host": host or socket.gethostname()}))

    def dead_pid(self):
        with subprocess.Popen([sys.executable, "-c", ""]) as process:
            process.wait()
        return process.pid

    def test_a_finished_job_ends_the_stream(self, job):
        token_trial(job, "t__1")
        finish(job)
        records, code, _ = stream(job, follow=True)
        assert (names(records), code) == (["t__1"], FINISHED)

    def test_a_dead_process_ends_it_after_its_results(self, job):
        token_trial(job, "t__1")
        self.lock(job, self.dead_pid())
        records, code, _ = stream(job, follow=True)
        assert (names(records), code) == (["t__1"], DIED)

    def test_a_running_one_until_the_timeout(self, job):
        token_trial(job, "t__1")
        self.lock(job, os.getpid())
        records, code, _ = stream(job, follow=True, timeout=0.05, poll_interval=0.01)
        assert (names(records), code) == (["t__1"], TIMED_OUT)

    def test_a_lock_of_another_host_is_believed(self, job):
        self.lock(job, self.dead_pid(), "elsewhere")
        assert stream(job, follow=True, timeout=0.02, poll_interval=0.01)[1] == TIMED_OUT

    def test_a_job_that_does_not_exist_yet_is_waited_for(self, tmp_path):
        assert stream(tmp_path / "later", follow=True, timeout=0.02, poll_interval=0.01)[1] == TIMED_OUT

    def test_but_not_without_following(self, tmp_path):
        with pytest.raises(FlywheelError, match="no such folder"):
            stream(tmp_path / "later")

    def test_the_one_job_inside_is_meant(self, job):
        token_trial(job, "t__1")
        finish(job)
        (job / "evaluation.json").write_text("{}")
        ((record,), _, _) = stream(job.parent)
        assert (record.job, record.rollout_path) == (job.name, "t__1")

    def test_two_jobs_inside_are_one_too_many(self, job):
        for name in ("a", "b"):
            (job / name).mkdir()
            (job / name / "evaluation.json").write_text("{}")
        with pytest.raises(FlywheelError, match=r"holds several jobs \(a, b\)"):
            stream(job)


def test_trials_that_finish_while_it_looks_come_as_they_do(job):
    token_trial(job, "t__1")
    (job / ".evaluation.lock").write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
    reading = iter(Stream(Request(job, poll_interval=0.01, timeout=30)))
    assert next(reading).rollout == "t__1"
    token_trial(job, "t__2")
    assert next(reading).rollout == "t__2"
    write_result(job / "t__1", reward=0.0)
    again = next(reading)
    assert (again.rollout, again.replaces, again.reward) == ("t__1", "t__1", 0.0)
    (job / ".evaluation.lock").unlink()
    finish(job)
    assert list(reading) == []


class TestRelay:
    def relay(self, trial: Path, records):
        (trial / "trajectory" / "policy_relay.jsonl").write_text("\n".join(map(json.dumps, records)))

    def test_matched_calls_are_attested_and_know_their_policy(self, job):
        trial = token_trial(job, "t__1")
        ((record,), _, _) = stream(job)
        digests = [call.digest for call in record.tokens.calls]
        self.relay(trial, [{"status": "ok", "digest": d, "version": 7 + i} for i, d in enumerate(digests)])
        ((record,), _, _) = stream(job)
        assert record.tokens.attestation["status"] == "attested"
        assert record.segments[0].policy_versions == [7, 8, 9]

    def test_a_call_that_the_relay_never_saw_is_not_trained_on(self, job):
        trial = token_trial(job, "t__1")
        self.relay(trial, [{"status": "ok", "digest": "sha256:other", "version": 7}])
        ((record,), _, _) = stream(job)
        assert record.tokens.attestation["status"] == "mismatch"
        assert (record.segments[0].trainable, record.segments[0].excluded) == (False, "attestation_mismatch")
        assert record.tokens.status == "none"
