"""kto, rl-prompts, verifiers, openenv-episodes, atif, adp: whole rollouts in other people's words."""

import msgspec
import pytest

from tests.trainers.conftest import provenance
from trace_flywheel.records.message import Message
from trace_flywheel.records.rows import PromptRow, RlRow
from trace_flywheel.trainers.layout import Candidate
from trace_flywheel.trainers.registry import layout

EPISODES = ["rl-prompts", "verifiers", "openenv-episodes", "atif", "adp"]


def written(name, rollout):
    return layout(name).candidate_row(rollout, Candidate(rollout.messages, rollout.tools), "jobs")


@pytest.mark.parametrize("name", EPISODES)
def test_a_rollout_is_a_sound_row_from_a_job_and_from_a_dataset(name, rollout):
    one = layout(name)
    assert list(one.validate(written(name, rollout))) == []
    rl = RlRow("r", rollout.messages, rollout.tools, 0.5, 0.1, {"id": "g"}, provenance("rl"))
    (row,) = one.rl_rows(rl)
    assert list(one.validate(row)) == []


@pytest.mark.parametrize("name", ["verifiers", "openenv-episodes"])
def test_an_unscored_rollout_is_refused_and_never_zero(name, rollout):
    row = written(name, msgspec.structs.replace(rollout, reward=None))
    assert list(layout(name).validate(row)) == ["reward: must be number"]


@pytest.mark.parametrize("reward", [-1.0, 1.5])
def test_rewards_are_raw(rollout, reward):
    assert written("verifiers", msgspec.structs.replace(rollout, reward=reward))["reward"] == reward


def test_kto_labels_by_verdict(rollout):
    one = layout("kto")
    for verdict, label in (("pass", True), ("fail", False)):
        row = written("kto", msgspec.structs.replace(rollout, verdict=verdict))
        assert row["label"] is label
        assert [m["role"] for m in row["prompt"]] == ["system", "user"]
        assert [m["role"] for m in row["completion"]] == ["assistant", "tool", "user", "assistant"]
        assert row["completion"][0]["tool_calls"][0]["function"]["arguments"] == {"command": "ls  -l"}
        assert list(one.validate(row)) == []
    assert list(one.validate(written("kto", rollout))) == ["row: 'label' is a required property"]


def test_rl_prompts_hold_the_task_and_its_judge_alone(rollout):
    graded = msgspec.structs.replace(rollout, grader="judge", grader_version="v3")
    row = written("rl-prompts", graded)
    assert [m["content"] for m in row["prompt"]] == ["You are careful.", "Measure it."]
    assert (row["verifier"], row["answer"], row["task_id"]) == ("judge@v3", None, "half-life")
    assert "It is 12.3." not in str(row)
    answered = {**row, "prompt": [*row["prompt"], {"role": "assistant", "content": "12"}]}
    assert any("the prompt ends before" in fault for fault in layout("rl-prompts").validate(answered))


def test_a_task_is_one_prompt_whatever_host_it_names(rollout):
    one = layout("rl-prompts")
    graded = msgspec.structs.replace(rollout, grader="judge", grader_version="v3")
    asked = [Message("user", f"root@{host}:/app# solve it") for host in ("0123456789ab", "ba9876543210")]
    rows = [written("rl-prompts", msgspec.structs.replace(graded, messages=(m, *rollout.messages[2:]))) for m in asked]
    assert rows[0]["prompt"] != rows[1]["prompt"]
    assert one.identity(rows[0]) == one.identity(rows[1]) == ("half-life", "judge@v3")
    assert one.identity(written("rl-prompts", msgspec.structs.replace(graded, grader_version="v4"))) != (
        "half-life",
        "judge@v3",
    )


@pytest.mark.parametrize("name", ["rl-prompts", "verifiers"])
def test_a_prompt_without_an_answer_is_a_sound_row(name, rollout):
    difficulty = {"n": 4, "passes": 1, "pass_at_1": 0.25}
    prompt = PromptRow("r", rollout.messages[:2], "42", "judge@v3", difficulty, rollout.tools, provenance("prompt"))
    one = layout(name)
    (row,) = one.prompt_rows(prompt)
    assert list(one.validate(row)) == []
    assert [m["content"] for m in row["prompt"]] == ["You are careful.", "Measure it."]
    assert row["answer"] == "42"
    assert row.get("verifier", row.get("info", {}).get("verifier")) == "judge@v3"
    assert list(one.validate({**row, "answer": 42})) == ["answer: must be string"] or name == "rl-prompts"
    (unknown,) = one.prompt_rows(msgspec.structs.replace(prompt, answer=None))
    assert unknown["answer"] == ("" if name == "verifiers" else None)


def test_verifiers_rows_keep_calls_as_calls(rollout):
    row = written("verifiers", rollout)
    assert row["completion"][0]["tool_calls"][0]["function"]["name"] == "bash"
    assert row["metrics"] == {"total_tokens": 7.0}
    assert (row["is_completed"], row["is_truncated"]) == (True, False)
    assert row["example_id"] == written("verifiers", rollout)["example_id"]
    cut = written("verifiers", msgspec.structs.replace(rollout, is_truncated=True))
    assert (cut["is_completed"], cut["is_truncated"]) == (False, True)


def test_openenv_traces_every_call_with_its_result(rollout):
    (traced,) = written("openenv-episodes", rollout)["tool_trace"]
    assert (traced["tool_name"], traced["arguments"]) == ("bash", {"command": "ls  -l"})
    assert traced["result"] == {"data": "12.3", "done": False, "metadata": {}, "error": None}


def test_openenv_names_a_failed_tool(rollout):
    messages = list(rollout.messages)
    messages[3] = msgspec.structs.replace(messages[3], content="no such file", is_error=True)
    (traced,) = written("openenv-episodes", msgspec.structs.replace(rollout, messages=tuple(messages)))["tool_trace"]
    assert traced["result"]["error"] == "no such file"


def test_atif_steps_say_everything_once(rollout):
    row = written("atif", rollout)
    assert [(s["step_id"], s["source"], s["message"]) for s in row["steps"]] == [
        (1, "system", "You are careful."),
        (2, "user", "Measure it."),
        (3, "agent", ""),
        (4, "system", "Half of the time is gone."),
        (5, "agent", "It is 12.3."),
    ]
    acted = row["steps"][2]
    assert acted["reasoning_content"] == "First look."
    assert acted["tool_calls"][0]["arguments"] == {"command": "ls  -l"}
    assert acted["observation"] == {"results": [{"source_call_id": "call_1", "content": "12.3"}]}
    assert row["final_metrics"]["total_steps"] == 5


def test_atif_faults(rollout):
    row = written("atif", rollout)
    row["steps"][1]["step_id"] = 7
    row["steps"][2]["observation"]["results"][0]["source_call_id"] = "other"
    assert list(layout("atif").validate(row)) == [
        "steps[1]: step_id is 7, not 2",
        "steps[2]: a result answers no call of its step",
        "steps[2]: a call has no result",
    ]


def test_adp_alternates_actions_and_observations(rollout):
    row = written("adp", rollout)
    assert [item["class_"] for item in row["content"]] == [
        "text_observation",
        "text_observation",
        "api_action",
        "text_observation",
        "text_observation",
        "message_action",
    ]
    assert row["content"][2]["kwargs"] == {"command": "ls  -l"}
    assert row["content"][3]["tool_call_id"] == "call_1"
    assert row["content"][-1]["reward"] == 0.5


def test_adp_says_what_stood_beside_a_call_first(rollout):
    messages = list(rollout.messages)
    messages[2] = msgspec.structs.replace(messages[2], content="I look.")
    content = written("adp", msgspec.structs.replace(rollout, messages=tuple(messages)))["content"]
    said, called = content[2:4]
    assert (said["content"], said["reasoning_content"]) == ("I look.", "First look.")
    assert "reasoning_content" not in called


@pytest.mark.parametrize("name", ["atif", "adp", "verifiers"])
def test_an_agent_that_never_acts_is_refused(name, rollout):
    silent = msgspec.structs.replace(rollout, messages=(Message("user", "Measure it."),))
    assert list(layout(name).validate(written(name, silent)))
