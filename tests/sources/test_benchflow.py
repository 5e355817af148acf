import json
from pathlib import Path, PurePosixPath

import pytest

from tests.sources.benchflow_jobs import RESULT, TURN, TWO_CALLS, USER, call, chat, read_job, read_one, record, trial
from trace_flywheel.records.message import text_of
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.sources.discover import discover


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


@pytest.mark.corpus
def test_a_real_claude_code_trial_keeps_its_calls_and_arguments(corpus) -> None:
    (job,) = [run for run in discover([corpus("benchflow-jobs-skill-lift")]).runs if "archive" not in run.run_id]
    found = read_job(job.path)
    ran = next(r for r in found if isinstance(r, Rollout) and r.trace_id == "citation-check__190a3859")
    calls = [call for message in ran.messages for call in message.tool_calls]
    assert [c.name for c in calls] == ["Read", "Agent", *["WebSearch"] * 7, "Write"]
    assert list(json.loads(calls[0].arguments)) == ["file_path"]
    assert PurePosixPath(json.loads(calls[0].arguments)["file_path"]).parts == ("/", "root", "test.bib")
    assert calls[0].arguments.startswith('{"file_path": "/')  # the spacing that was recorded
    assert all(c.parsed and json.loads(c.arguments) for c in calls)
    assert [m.tool_call_id for m in ran.messages if m.role == "tool"] == [c.id for c in calls]
    said = text_of(ran.messages[-1].content).split("`")
    assert (said[0], PurePosixPath(said[1]).parts) == ("Written to ", ("/", "root", "answer.json"))
    assert sum(bool(m.reasoning) for m in ran.messages) == 4
    assert [e.index for e in ran.exchanges if e.thread == 0] == [0, 2, 5, 9, 12, 13]
    assert {e.purpose for e in ran.exchanges if e.thread} == {"helper"}
    assert (ran.metadata or {})["failed_calls"] == 1
    never = next(r for r in found if isinstance(r, Rollout) and r.trace_id == "citation-check__e1a7b1ff")
    assert never.never_called
    assert never.reward is None
