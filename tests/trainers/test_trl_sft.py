"""trl-sft rows: one supervised turn a row in datasets, the last turn in convert."""

import msgspec

from trace_flywheel.records.message import Message
from trace_flywheel.trainers.layout import Candidate
from trace_flywheel.trainers.trl_sft import LAYOUT


def test_a_dataset_row_becomes_one_row_per_supervised_turn(sft_row):
    first, second = LAYOUT.sft_rows(sft_row)
    assert [m["role"] for m in first["prompt"]] == ["system", "user"]
    assert first["completion"][0]["tool_calls"][0]["function"]["arguments"] == {"command": "ls  -l"}
    assert [m["role"] for m in second["prompt"]] == ["system", "user", "assistant", "tool", "user"]
    assert second["completion"] == [{"role": "assistant", "content": "It is 12.3."}]
    assert [(r["row_id"], r["turn"], r["task_id"]) for r in (first, second)] == [
        ("r1", 0, "suite/half-life"),
        ("r1", 1, "suite/half-life"),
    ]
    assert not [fault for row in (first, second) for fault in LAYOUT.validate(row)]


def test_masked_turns_stay_in_the_prompt_without_a_row(sft_row):
    masked = [msgspec.structs.replace(m, train_on=False) if m.tool_calls else m for m in sft_row.messages]
    (row,) = LAYOUT.sft_rows(msgspec.structs.replace(sft_row, messages=tuple(masked)))
    assert row["turn"] == 1
    assert len(row["prompt"]) == 5
    assert all("train_on" not in m for m in row["prompt"])


def test_row_of_a_rollout(rollout):
    row = LAYOUT.candidate_row(rollout, Candidate(rollout.messages, rollout.tools, 4, model="v4"), "jobs")
    assert list(row) == [
        "prompt",
        "completion",
        "tools",
        "reward",
        "task_id",
        "agent",
        "model",
        "exchange_index",
        "call_purpose",
        "source",
        "source_path",
        "source_rollout_dir",
        "token_usage",
    ]
    assert row["source_rollout_dir"] == "jobs/a/half-life__1a"
    assert row["completion"] == [{"role": "assistant", "content": "It is 12.3."}]
    assert list(LAYOUT.validate(row)) == []


def test_what_follows_the_last_answer_is_no_target(rollout):
    cut = (*rollout.messages[:4], Message("user", "More?"))
    row = LAYOUT.candidate_row(rollout, Candidate(cut, rollout.tools), "")
    assert row["completion"][0]["tool_calls"]
    assert len(row["prompt"]) == 2


def test_a_conversation_without_an_answer_is_refused(rollout):
    row = LAYOUT.candidate_row(rollout, Candidate(rollout.messages[:2], rollout.tools), "")
    assert list(LAYOUT.validate(row)) == ["completion: must not be empty"]


def test_argument_text_is_refused():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    row = {
        "prompt": [{"role": "user", "content": "q"}],
        "completion": [{"role": "assistant", "tool_calls": [call]}],
        "tools": [{"name": "f"}],
    }
    assert list(LAYOUT.validate(row)) == ["completion[0].tool_calls[0].function.arguments: must be object"]
