"""The canonical layout loses nothing that a row's text holds."""

import msgspec

from trace_flywheel.records.message import Message
from trace_flywheel.records.rows import RlRow
from trace_flywheel.trainers.layout import Candidate
from trace_flywheel.trainers.messages import LAYOUT


def test_sft_row(sft_row):
    (row,) = LAYOUT.sft_rows(sft_row)
    assert list(row) == ["row_id", "messages", "tools", "task_id"]
    assert row["messages"][2] == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "First look.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls  -l"}'}}
        ],
    }
    assert row["messages"][4]["role"] == "system"
    assert list(LAYOUT.validate(row)) == []


def test_pair_row(pair):
    (row,) = LAYOUT.pair_rows(pair)
    assert list(row) == ["row_id", "prompt", "chosen", "rejected", "tools", "task_id"]
    assert list(LAYOUT.validate(row)) == []


def test_rl_row_keeps_token_ids_and_the_advantage(sft_row):
    sampled = (Message("user", "q"), Message("assistant", "a", token_ids=(5, 6), logprobs=(-0.1, -0.2)))
    (row,) = LAYOUT.rl_rows(RlRow("r", sampled, (), 1.0, None, {"id": "task=x"}, sft_row.provenance))
    assert row["messages"][1] == {"role": "assistant", "content": "a", "token_ids": [5, 6], "logprobs": [-0.1, -0.2]}
    assert (row["reward"], row["advantage"], row["group"]) == (1.0, None, {"id": "task=x"})
    assert list(LAYOUT.validate(row)) == []


def test_candidate_row_names_its_rollout(rollout):
    failed = msgspec.structs.replace(
        rollout, messages=(*rollout.messages[:3], Message("tool", "no", tool_call_id="call_1", is_error=True))
    )
    row = LAYOUT.candidate_row(failed, Candidate(failed.messages, failed.tools), "")
    assert (row["run_id"], row["trace_id"], row["reward"]) == ("jobs/a", "half-life__1a", 0.5)
    assert row["messages"][3]["is_error"] is True
    assert len(row["row_id"]) == 32


def test_a_row_without_its_id_is_refused(sft_row):
    (row,) = LAYOUT.sft_rows(sft_row)
    del row["row_id"]
    assert list(LAYOUT.validate(row)) == ["row: 'row_id' is a required property"]
