"""trl-dpo rows: bug shape B19, pairs as message lists with a common prefix."""

import msgspec
import pytest

from trace_flywheel.records.message import Message
from trace_flywheel.trainers.trl_dpo import LAYOUT


def test_row_of_a_pair(pair):
    (row,) = LAYOUT.pair_rows(pair)
    assert list(row) == ["prompt", "chosen", "rejected", "tools", "task_id", "row_id"]
    assert [m["role"] for m in row["prompt"]] == ["system", "user"]
    assert [m["role"] for m in row["chosen"]] == ["assistant", "tool", "user", "assistant"]
    assert row["chosen"][0]["tool_calls"][0]["function"]["arguments"] == {"command": "ls  -l"}
    assert row["rejected"] == [{"role": "assistant", "content": "I guess 10."}]
    assert list(LAYOUT.validate(row)) == []


@pytest.mark.parametrize(
    ("rejected", "fault"),
    [
        ((Message("user", "q"), Message("assistant", "a")), "rejected[0]: a user message; the members must diverge"),
        ((Message("assistant", " "),), "rejected: the answer is empty"),
    ],
)
def test_faults(pair, rejected, fault):
    (row,) = LAYOUT.pair_rows(msgspec.structs.replace(pair, rejected=rejected))
    assert [f for f in LAYOUT.validate(row) if f.startswith(fault)]


def test_equal_members_are_refused(pair):
    (row,) = LAYOUT.pair_rows(msgspec.structs.replace(pair, rejected=pair.chosen))
    assert list(LAYOUT.validate(row)) == ["chosen and rejected are the same"]
