"""prime-sft rows: BenchFlow's keys in its order."""

import msgspec

from trace_flywheel.trainers.layout import Candidate
from trace_flywheel.trainers.prime_sft import LAYOUT

CHAT = [
    {"role": "system", "content": "You are careful."},
    {"role": "user", "content": "Measure it."},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls  -l"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "12.3"},
    {"role": "user", "content": "Half of the time is gone."},
    {"role": "assistant", "content": "It is 12.3."},
]


def test_row_of_a_rollout(rollout):
    row = LAYOUT.candidate_row(rollout, Candidate(rollout.messages, rollout.tools, 4, model="v4"), "/data/jobs")
    assert list(row) == [
        "messages",
        "tool_defs",
        "task_name",
        "source",
        "source_path",
        "exchange_index",
        "reward",
        "score",
        "model",
        "agent",
        "token_usage",
    ]
    assert row["messages"] == CHAT
    assert row["source"] == "benchflow-llm-trajectory"
    assert row["source_path"] == "/data/jobs/a/half-life__1a/trajectory/llm_trajectory.jsonl"
    assert (row["reward"], row["score"], row["model"], row["exchange_index"]) == (0.5, 0.5, "v4", 4)
    assert list(LAYOUT.validate(row)) == []


def test_an_unscored_rollout_has_no_reward_key(rollout):
    unscored = msgspec.structs.replace(rollout, reward=None)
    row = LAYOUT.candidate_row(unscored, Candidate(rollout.messages, rollout.tools), "")
    assert not {"reward", "score", "exchange_index"} & set(row)


def test_row_of_a_dataset_keeps_masks(sft_row):
    masked = tuple(
        msgspec.structs.replace(m, train_on=m.content is not None) if m.role == "assistant" else m
        for m in sft_row.messages
    )
    (row,) = LAYOUT.sft_rows(msgspec.structs.replace(sft_row, messages=masked))
    assert [m.get("train_on") for m in row["messages"]] == [None, None, False, None, None, True]
    assert (row["row_id"], row["task_name"], row["reward"]) == ("r1", "suite/half-life", 1.0)
    assert list(LAYOUT.validate(row)) == []


def test_the_reward_of_a_corrected_trace_is_not_the_rows(sft_row):
    corrected = msgspec.structs.replace(
        sft_row, provenance=msgspec.structs.replace(sft_row.provenance, kind="correction")
    )
    (row,) = LAYOUT.sft_rows(corrected)
    assert "reward" not in row


def test_faults_of_shape_come_alone():
    assert list(LAYOUT.validate({"messages": []})) == ["messages: must not be empty"]
