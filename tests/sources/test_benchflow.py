import json
import os
from pathlib import Path

import pytest

from tests.sources.benchflow_jobs import call, chat, lost_one, read_job, read_one, record, trial
from trace_flywheel.curation.quality import quality
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.message import text_of
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.sources.benchflow import READER
from trace_flywheel.sources.discover import discover
from trace_flywheel.sources.reader import ReadOptions

USER = {"role": "user", "content": "go"}
TURN = {"role": "assistant", "content": "", "tool_calls": [call("c1")]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "out"}
TWO_CALLS = [chat({"content": None, "tool_calls": [call("c1")]}, [USER]), chat("done", [USER, TURN, RESULT])]


def roles(rollout: Rollout) -> str:
    return "".join(message.role[0] for message in rollout.messages)


def test_a_trial_becomes_one_rollout(tmp_path: Path) -> None:
    usage = {"n_input_tokens": 7, "cost_usd": None, "acp_stop_reason": "end_turn"}
    facts = {"started_at": "2026-01-01 00:00:00.5", "finished_at": "2026-01-01 00:01:00.5", "session_id": "s1"}
    trial(tmp_path / "job", "half-life__0a", TWO_CALLS, {"agent_result": usage, "skill_mode": "no-skill", **facts})
    rollout = read_one(tmp_path / "job")
    assert (rollout.run_id, rollout.trace_id, rollout.task_id) == ("jobs/j", "half-life__0a", "half-life")
    assert (rollout.agent, rollout.model, rollout.request_model, rollout.job) == ("openhands", "p/m", "m", "job")
    assert (rollout.reward, rollout.verdict) == (1.0, "pass")
    assert (rollout.grader, rollout.grader_version) == ("benchflow-verifier", "sha256:d")
    assert (rollout.started_at, rollout.session_id) == ("2026-01-01 00:00:00.5", "s1")
    assert rollout.token_usage == usage
    assert rollout.stop_reason == "end_turn"
    assert roles(rollout) == "uata"
    assert [tool.name for tool in rollout.tools] == ["bash"]
    assert rollout.metadata == {"skill_mode": "no-skill", "exchange_index": 1, "calls": 2}
    assert rollout.source.path == "half-life__0a/trajectory/llm_trajectory.jsonl"
    assert len(rollout.source.sha256) == 64
    assert not rollout.is_truncated
    assert not rollout.never_called
    assert not rollout.retried


def test_calls_of_the_main_thread_point_into_the_messages(tmp_path: Path) -> None:
    trial(tmp_path, "t__1", TWO_CALLS)
    rollout = read_one(tmp_path)
    assert [(e.index, e.context, e.messages, e.tools) for e in rollout.exchanges] == [
        (0, 1, (), None),
        (1, 3, (), None),
    ]
    assert read_one(tmp_path, exchanges=False).exchanges == ()
    assert read_one(tmp_path, exchanges=False).messages == rollout.messages


def test_pass_reward_is_a_setting(tmp_path: Path) -> None:
    trial(tmp_path, "t__1", TWO_CALLS, {"rewards": {"reward": 0.5}})
    assert read_one(tmp_path).verdict == "fail"
    assert read_one(tmp_path, pass_reward=0.5).verdict == "pass"


def test_reasoning_of_earlier_turns_comes_from_their_responses(tmp_path: Path) -> None:
    first = {"content": None, "reasoning_content": "look first", "tool_calls": [call("c1")]}
    trial(
        tmp_path, "t__1", [chat(first, [USER]), chat({"content": "done", "reasoning": "enough"}, [USER, TURN, RESULT])]
    )
    assert [m.reasoning for m in read_one(tmp_path).messages] == [None, "look first", None, "enough"]


def test_token_ids_of_every_answer_come_from_the_capture(tmp_path: Path) -> None:
    def captured(ids: list[int], logprobs: list[float] | None) -> dict:
        return {"token_capture": {"prompt_token_ids": [1], "completions": [{"token_ids": ids, "logprobs": logprobs}]}}

    exchanges = [
        {**x, "metadata": m}
        for x, m in zip(TWO_CALLS, (captured([5, 6], [-1, -0.5]), captured([7], None)), strict=True)
    ]
    trial(tmp_path, "t__1", exchanges)
    rollout = read_one(tmp_path)
    assert [m.token_ids for m in rollout.messages] == [None, (5, 6), None, (7,)]
    assert [m.logprobs for m in rollout.messages] == [None, (-1.0, -0.5), None, None]
    assert rollout.exchanges[0].token_capture == captured([5, 6], [-1, -0.5])["token_capture"]


def test_failed_calls_are_counted_and_their_repeats_known(tmp_path: Path) -> None:
    failed = record({"error": {"message": "overloaded"}}, status=500, messages=[USER])
    other = record({"error": {}}, status=429, messages=[{"role": "user", "content": "title?"}])
    trial(tmp_path, "t__1", [failed, other, *TWO_CALLS])
    rollout = read_one(tmp_path)
    assert rollout.metadata is not None
    assert (rollout.metadata["failed_calls"], rollout.metadata["retried_calls"]) == (2, 1)
    assert [e.index for e in rollout.exchanges] == [2, 3]


def test_all_calls_failed_means_never_called(tmp_path: Path) -> None:
    failed = record({"error": {}}, status=500, messages=[USER])
    trial(
        tmp_path,
        "t__1",
        [failed],
        {"error": "boom", "error_category": "provider_auth", "rewards": None},
        prompts=["go"],
    )
    rollout = read_one(tmp_path)
    assert rollout.never_called
    assert rollout.error is not None
    assert (rollout.error.category, rollout.error.by) == ("provider_auth", "infrastructure")
    assert [(m.role, m.content) for m in rollout.messages] == [("user", "go")]
    assert rollout.reward is None
    assert rollout.verdict is None


def test_a_trial_that_never_ran_is_still_a_member_of_its_group(tmp_path: Path) -> None:
    trial(
        tmp_path, "t__1", None, {"error": "no login", "error_category": "other", "rewards": None}, events=[], prompts=[]
    )
    rollout = read_one(tmp_path)
    assert rollout.never_called
    assert rollout.messages == ()
    assert rollout.error is not None
    assert rollout.error.by == "infrastructure"


def test_without_a_gateway_capture_the_acp_events_speak(tmp_path: Path) -> None:
    events = [
        {"type": "user_message", "text": "go"},
        {"type": "agent_thought", "text": "look"},
        {
            "type": "tool_call",
            "tool_call_id": "c1",
            "kind": "execute",
            "raw_input": {"command": "ls"},
            "raw_output": "x",
        },
        {"type": "agent_message", "text": "done"},
    ]
    trial(tmp_path, "t__1", b"", events=events)
    rollout = read_one(tmp_path)
    assert roles(rollout) == "uata"
    assert not rollout.never_called
    assert [(tool.name, tool.inferred) for tool in rollout.tools] == [("Bash", True)]
    assert rollout.source.path == "t__1/trajectory/acp_trajectory.jsonl"
    assert rollout.metadata == {"trajectory": "acp"}


def test_a_capture_of_side_calls_alone_is_not_the_trial(tmp_path: Path) -> None:
    title = {**chat("A title", [USER]), "metadata": {"call_purpose": "title"}}
    trial(
        tmp_path,
        "t__1",
        [title],
        events=[{"type": "user_message", "text": "go"}, {"type": "agent_message", "text": "k"}],
    )
    rollout = read_one(tmp_path)
    assert [m.content for m in rollout.messages] == ["go", "k"]
    assert not rollout.never_called


@pytest.mark.parametrize(("value", "cut"), [(True, True), (False, False), ("true", False), (None, False)])
def test_only_exactly_true_is_a_partial_trajectory(tmp_path: Path, value: object, cut: bool) -> None:
    trial(tmp_path, "t__1", TWO_CALLS, {"partial_trajectory": value})
    assert read_one(tmp_path).is_truncated is cut


def test_an_answer_at_the_length_limit_is_truncated(tmp_path: Path) -> None:
    answer = {"choices": [{"finish_reason": "length", "message": {"role": "assistant", "content": "cut o"}}]}
    trial(tmp_path, "t__1", [record(answer, messages=[USER])])
    assert read_one(tmp_path).is_truncated


class TestDamage:
    def test_a_cut_last_line_keeps_the_whole_calls(self, tmp_path: Path) -> None:
        lines = "\n".join(map(json.dumps, TWO_CALLS)).encode()
        trial(tmp_path, "t__1", lines + b'\n{"request": {"body": {"mess')
        rollout = read_one(tmp_path)
        assert rollout.is_truncated
        assert roles(rollout) == "uata"
        assert rollout.metadata is not None
        torn = {"file": "trajectory/llm_trajectory.jsonl", "line": 3, "text": "Input data was truncated"}
        assert rollout.metadata["torn"] == torn

    def test_a_cut_inside_a_character_is_a_cut_too(self, tmp_path: Path) -> None:
        trial(tmp_path, "t__1", json.dumps(TWO_CALLS[0]).encode() + b'\n{"request": "\xc3')
        assert read_one(tmp_path).is_truncated

    def test_a_torn_middle_line_loses_the_trial_by_name_and_line(self, tmp_path: Path) -> None:
        one, two = (json.dumps(x).encode() for x in TWO_CALLS)
        trial(tmp_path, "t__1", one + b"\n" + two[:50] + b"\n" + two)
        drop = lost_one(tmp_path)
        assert (drop.stage, drop.reason, drop.evidence["line"]) == ("read", "bad_json", 2)
        assert (drop.trace_id, drop.task_id, drop.agent, drop.model) == ("t__1", "t", "openhands", "p/m")
        assert drop.path == "t__1/trajectory/llm_trajectory.jsonl"

    def test_bad_encoding_has_its_own_reason(self, tmp_path: Path) -> None:
        data = json.dumps(chat("done", [USER])).encode().replace(b"done", b"do\xff\xfee")
        trial(tmp_path, "t__1", data + b"\n")
        assert lost_one(tmp_path).reason == "bad_encoding"

    def test_a_line_that_is_no_object_loses_the_trial(self, tmp_path: Path) -> None:
        trial(tmp_path, "t__1", json.dumps(TWO_CALLS[0]).encode() + b"\n[1]\n")
        drop = lost_one(tmp_path)
        assert (drop.reason, drop.evidence["line"]) == ("unknown_shape", 2)

    def test_a_line_above_the_limit_loses_the_trial(self, tmp_path: Path) -> None:
        trial(tmp_path, "t__1", [chat("x" * 3000, [USER])], result={"task_name": "t"})
        assert lost_one(tmp_path, max_line_bytes=1000).reason == "line_too_long"

    def test_a_byte_order_mark_is_noted(self, tmp_path: Path) -> None:
        trial(tmp_path, "t__1", b"\xef\xbb\xbf" + json.dumps(chat("done", [USER])).encode())
        assert (read_one(tmp_path).metadata or {})["bom"] is True

    @pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0c"])
    def test_unicode_line_ends_inside_text_tear_nothing(self, tmp_path: Path, mark: str) -> None:
        line = json.dumps(chat(f"a{mark}b", [USER]), ensure_ascii=False).encode()
        trial(tmp_path, "t__1", line + b"\n")
        assert read_one(tmp_path).messages[-1].content == f"a{mark}b"

    def test_lone_surrogates_become_the_replacement_character(self, tmp_path: Path) -> None:
        trial(tmp_path, "t__1", json.dumps(chat("a\udcb2b", [USER])).encode())
        rollout = read_one(tmp_path)
        assert rollout.messages[-1].content == "a\ufffdb"
        assert (rollout.metadata or {})["replaced_surrogates"] == 1

    def test_a_whole_pair_is_no_lone_surrogate(self, tmp_path: Path) -> None:
        trial(tmp_path, "t__1", [chat("a\U0001f600b", [USER])])
        rollout = read_one(tmp_path)
        assert rollout.messages[-1].content == "a\U0001f600b"
        assert "replaced_surrogates" not in (rollout.metadata or {})

    def test_nan_beside_the_conversation_does_not_matter(self, tmp_path: Path) -> None:
        trial(tmp_path, "t__1", [chat("done", [USER], temperature=float("nan"))])
        assert read_one(tmp_path).messages[-1].content == "done"

    def test_an_orphan_result_costs_the_row_and_not_the_grade(self, tmp_path: Path) -> None:
        trial(tmp_path, "t__1", [chat("done", [USER, RESULT])])
        rollout = read_one(tmp_path)
        assert (rollout.reward, (rollout.metadata or {})["orphan_results"]) == (1.0, [1])
        drop = quality(rollout)
        assert drop is not None
        assert (drop.reason, drop.evidence) == ("unpaired_calls", {"message": 1, "result_without_call": "c1"})

    def test_an_unknown_role_loses_the_trial_not_the_run(self, tmp_path: Path) -> None:
        trial(tmp_path, "a__1", [chat("done", [{"role": "critic", "content": "x"}])])
        trial(tmp_path, "b__1", TWO_CALLS)
        drop, rollout = read_job(tmp_path)
        assert isinstance(drop, Drop)
        assert drop.reason == "unknown_shape"
        assert "critic" in drop.evidence["text"]
        assert isinstance(rollout, Rollout)


class TestLostResults:
    def test_a_missing_result_is_known_by_folder_and_siblings(self, tmp_path: Path) -> None:
        trial(tmp_path / "job", "half-life__2", TWO_CALLS, result="")
        trial(tmp_path / "job", "other__1", TWO_CALLS)
        drop, _ = read_job(tmp_path / "job")
        assert isinstance(drop, Drop)
        assert drop.reason == "missing_result"
        assert (drop.trace_id, drop.task_id, drop.agent, drop.model) == (
            "half-life__2",
            "half-life",
            "openhands",
            "p/m",
        )
        assert (drop.run_id, drop.job) == ("jobs/j", "job")

    def test_its_own_configuration_knows_better_than_a_sibling(self, tmp_path: Path) -> None:
        folder = trial(tmp_path, "half-life__2", TWO_CALLS, result="")
        trial(tmp_path, "other__1", TWO_CALLS)
        (folder / "config.json").write_text('{"agent": "codex", "model": "gpt"}')
        drop = read_job(tmp_path)[0]
        assert isinstance(drop, Drop)
        assert (drop.agent, drop.model) == ("codex", "gpt")

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b"[]", "unknown_shape"),
            (b"null", "unknown_shape"),
            (b'{"task_name": "t", "rew', "bad_json"),
            (b'{"task_name": "\xff"}', "bad_encoding"),
            (b" ", "bad_json"),
        ],
    )
    def test_an_unreadable_result_says_why(self, tmp_path: Path, data: bytes, reason: str) -> None:
        trial(tmp_path, "t__1", TWO_CALLS, result=data)
        drop = lost_one(tmp_path)
        assert (drop.reason, drop.task_id, drop.path) == (reason, "t", "t__1/result.json")

    def test_a_trial_that_has_only_begun_is_missing_its_result(self, tmp_path: Path) -> None:
        trial(tmp_path, "t__1", TWO_CALLS)
        for name in ("t__2", "verifier"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "config.json").write_text('{"agent": "openhands", "model": "p/m"}')
        _, drop = read_job(tmp_path)
        assert isinstance(drop, Drop)
        assert (drop.reason, drop.task_id, drop.agent) == ("missing_result", "t", "openhands")

    def test_a_folder_named_result_json_is_a_trial_without_result(self, tmp_path: Path) -> None:
        folder = trial(tmp_path, "t__1", TWO_CALLS, result="")
        (folder / "result.json").mkdir()
        assert lost_one(tmp_path).reason == "missing_result"

    def test_nan_in_a_result_is_read(self, tmp_path: Path) -> None:
        trial(tmp_path, "t__1", TWO_CALLS, result=b'{"task_name": "t", "rewards": {"reward": NaN}}')
        rollout = read_one(tmp_path)
        assert (rollout.reward, rollout.reward_text, rollout.verdict) == (None, "NaN", None)


class TestFolders:
    def test_a_job_is_found_at_any_depth_and_its_root_is_none(self, tmp_path: Path) -> None:
        job = tmp_path / "jobs" / "opencode" / "trial-01" / "2026-01-01__00-00-00"
        trial(job, "t__1", TWO_CALLS)
        (tmp_path / "jobs" / "summary.json").write_text("{}")
        (job.parent / "summary.json").write_text("{}")
        found = discover([tmp_path / "jobs"])
        assert [(run.run_id, run.format) for run in found.runs] == [
            ("jobs/opencode/trial-01/2026-01-01__00-00-00", "benchflow")
        ]
        assert found.problems == ()

    def test_a_trial_alone_is_a_run(self, tmp_path: Path) -> None:
        folder = trial(tmp_path / "job", "t__1", TWO_CALLS)
        (run,) = discover([folder]).runs
        (unit,) = READER.units(run)
        assert (run.run_id, unit.path) == ("t__1", folder)
        rollout = read_one(folder)
        assert (rollout.trace_id, rollout.job) == ("t__1", "job")
        assert rollout.source.path == "trajectory/llm_trajectory.jsonl"

    def test_reviewers_runs_are_no_trials(self, tmp_path: Path) -> None:
        solved = trial(tmp_path, "t__1", TWO_CALLS)
        trial(solved / "reviews", "r__1", TWO_CALLS)
        trial(tmp_path, "review__1", TWO_CALLS, {"purpose": "reviewer"})
        pending = tmp_path / "t__2"
        trial(pending / "reviews", "r__1", TWO_CALLS)
        (pending / "solver.json").write_text("{}")
        assert [found.trace_id for found in read_job(tmp_path)] == ["t__1"]

    def test_harbor_trials_are_someone_elses(self, tmp_path: Path) -> None:
        (tmp_path / "job" / "t__1").mkdir(parents=True)
        (tmp_path / "job" / "t__1" / "result.json").write_text('{"trial_name": "t__1", "task_name": "t"}')
        assert [run.format for run in discover([tmp_path]).runs if run.format == "benchflow"] == []

    def test_links_to_folders_are_not_entered_and_loops_harmless(self, tmp_path: Path) -> None:
        trial(tmp_path / "job", "t__1", TWO_CALLS)
        trial(tmp_path / "store", "t__2", TWO_CALLS)
        (tmp_path / "job" / "t__2").symlink_to(tmp_path / "store" / "t__2")
        (tmp_path / "job" / "loop").symlink_to(tmp_path / "job")
        assert [found.trace_id for found in read_job(tmp_path / "job", root=tmp_path)] == ["t__1"]

    def test_a_file_link_is_followed_inside_the_root_only(self, tmp_path: Path) -> None:
        stored = trial(tmp_path / "store", "t__2", TWO_CALLS)
        folder = tmp_path / "job" / "t__1"
        folder.mkdir(parents=True)
        (folder / "result.json").symlink_to(stored / "result.json")
        (folder / "trajectory").symlink_to(stored / "trajectory")
        (inside,) = read_job(tmp_path / "job", root=tmp_path)
        assert isinstance(inside, Rollout)
        assert roles(inside) == "uata"
        (outside,) = read_job(tmp_path / "job", root=tmp_path / "job")
        assert isinstance(outside, Drop)
        assert outside.reason == "unreadable_file"

    def test_a_job_of_links_alone_is_found_and_never_read_outside(self, tmp_path: Path) -> None:
        stored = trial(tmp_path / "store", "t__2", TWO_CALLS)
        folder = tmp_path / "job" / "t__1"
        folder.mkdir(parents=True)
        (folder / "result.json").symlink_to(stored / "result.json")
        (folder / "trajectory").symlink_to(stored / "trajectory")
        (run,) = discover([tmp_path / "job"]).runs
        (unit,) = READER.units(run)
        (lost,) = READER.read(run, unit, ReadOptions())
        assert isinstance(lost, Drop)
        assert lost.evidence == {"text": "leads out of its root"}

    def test_a_dangling_link_is_a_trial_without_result(self, tmp_path: Path) -> None:
        trial(tmp_path, "t__1", TWO_CALLS)
        (tmp_path / "t__2").mkdir()
        (tmp_path / "t__2" / "result.json").symlink_to(tmp_path / "missing.json")
        lost = read_job(tmp_path)[1]
        assert isinstance(lost, Drop)
        assert lost.reason == "missing_result"

    @pytest.mark.parametrize(
        ("files", "finished"),
        [
            ({}, True),
            ({"results.jsonl": "{}\n"}, True),
            ({"results.jsonl": '{"a": 1}'}, False),
            ({"results.jsonl": '{}\n{"a'}, False),
            ({"results.jsonl": ""}, False),
            ({"summary.json": "{}"}, True),
            ({"summary.json": "{"}, False),
        ],
    )
    def test_a_job_is_finished_by_its_marker(self, tmp_path: Path, files: dict[str, str], finished: bool) -> None:
        trial(tmp_path / "job", "t__1", TWO_CALLS)
        for name, text in files.items():
            (tmp_path / "job" / name).write_text(text)
        assert [run.finished for run in discover([tmp_path]).runs] == [finished]

    def test_a_running_job_is_claimed_and_not_finished(self, tmp_path: Path) -> None:
        trial(tmp_path / "job", "t__1", TWO_CALLS, result="")
        assert [run.finished for run in discover([tmp_path]).runs] == [False]


class TestRetries:
    def attempts(self, job: Path, evaluation: str | None) -> list[bool]:
        trial(job, "t__1", TWO_CALLS, {"rewards": None, "finished_at": "2026-01-01 00:00:09"})
        trial(job, "t__2", TWO_CALLS, {"finished_at": "2026-01-01 00:00:05"})
        trial(job, "t__3", TWO_CALLS, {"finished_at": "2026-01-01 00:00:07"})
        trial(job, "u__1", TWO_CALLS)
        os.utime(job / "t__1" / "result.json", (9e9, 9e9))
        if evaluation is not None:
            (job / "evaluation.json").write_text(evaluation)
        return [found.retried for found in read_job(job) if isinstance(found, Rollout)]

    def test_the_scored_then_the_last_attempt_wins(self, tmp_path: Path) -> None:
        assert self.attempts(tmp_path, '{"config": {"retry": {"max_retries": 2}}}') == [True, True, False, False]

    @pytest.mark.parametrize("evaluation", [None, "{}", '{"config": {"retry": {"max_retries": 0}}}', "[", "[]"])
    def test_without_a_retry_configuration_all_are_trials(self, tmp_path: Path, evaluation: str | None) -> None:
        (tmp_path / "summary.json").write_text("{}")
        assert self.attempts(tmp_path, evaluation) == [False] * 4


@pytest.mark.corpus
def test_a_real_claude_code_trial_keeps_its_calls_and_arguments(corpus) -> None:
    (job,) = [run for run in discover([corpus("benchflow-jobs-skill-lift")]).runs if "archive" not in run.run_id]
    found = read_job(job.path)
    ran = next(r for r in found if isinstance(r, Rollout) and r.trace_id == "citation-check__190a3859")
    calls = [call for message in ran.messages for call in message.tool_calls]
    assert [c.name for c in calls] == ["Read", "Agent", *["WebSearch"] * 7, "Write"]
    assert calls[0].arguments == '{"file_path": "/root/test.bib"}'
    assert all(c.parsed and json.loads(c.arguments) for c in calls)
    assert [m.tool_call_id for m in ran.messages if m.role == "tool"] == [c.id for c in calls]
    assert text_of(ran.messages[-1].content).startswith("Written to `/root/answer.json`")
    assert sum(bool(m.reasoning) for m in ran.messages) == 4
    assert [e.index for e in ran.exchanges if e.thread == 0] == [0, 2, 5, 9, 12, 13]
    assert {e.purpose for e in ran.exchanges if e.thread} == {"helper"}
    assert (ran.metadata or {})["failed_calls"] == 1
    never = next(r for r in found if isinstance(r, Rollout) and r.trace_id == "citation-check__e1a7b1ff")
    assert never.never_called
    assert never.reward is None
