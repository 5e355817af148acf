import json
import os
from pathlib import Path

import pytest

from tests.sources.benchflow_jobs import RESULT, TWO_CALLS, USER, chat, lost_one, read_job, read_one, trial
from trace_flywheel.curation.quality import quality
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.sources.benchflow import READER
from trace_flywheel.sources.benchflow_folders import LLM
from trace_flywheel.sources.discover import discover
from trace_flywheel.sources.reader import ReadOptions


def roles(rollout: Rollout) -> str:
    return "".join(message.role[0] for message in rollout.messages)


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

    def test_a_link_to_a_capture_is_followed_inside_the_root_only(self, tmp_path: Path) -> None:
        stored = trial(tmp_path / "store", "t__2", TWO_CALLS) / LLM
        capture = trial(tmp_path / "job", "t__1", TWO_CALLS) / LLM
        capture.unlink()
        capture.symlink_to(stored)
        (inside,) = read_job(tmp_path / "job", root=tmp_path)
        assert isinstance(inside, Rollout)
        assert roles(inside) == "uata"
        (outside,) = read_job(tmp_path / "job", root=tmp_path / "job")
        assert isinstance(outside, Drop)
        assert (outside.reason, outside.evidence) == ("unreadable_file", {"text": "leads out of its root"})
        stored.unlink()
        (dangling,) = read_job(tmp_path / "job", root=tmp_path)
        assert isinstance(dangling, Drop)
        assert (dangling.reason, dangling.evidence) == ("unreadable_file", {"text": "No such file or directory"})

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

    def test_every_look_asks_anew(self, tmp_path: Path) -> None:
        assert self.attempts(tmp_path, None) == [False] * 4
        for retries, expected in ((2, [True, True, False, False]), (0, [False] * 4)):
            (tmp_path / "evaluation.json").write_text(f'{{"config": {{"retry": {{"max_retries": {retries}}}}}}}')
            assert [found.retried for found in read_job(tmp_path) if isinstance(found, Rollout)] == expected
