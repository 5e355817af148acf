"""kto rows: an answer, what came before it, and whether it is good; in TRL's form and in the canonical one."""

import msgspec
import pytest

from tests.trainers.conftest import BASH, provenance
from trace_flywheel.records.message import Message
from trace_flywheel.records.rows import KtoRow
from trace_flywheel.trainers.kto import LAYOUT
from trace_flywheel.trainers.registry import layout


@pytest.fixture
def kto_row(conversation):
    return KtoRow("k1", conversation[:2], conversation[2:], False, (BASH,), provenance("kto"))


def test_row_of_an_answer(kto_row):
    (row,) = LAYOUT.kto_rows(kto_row)
    assert list(row) == ["prompt", "completion", "label", "tools", "task_id", "row_id"]
    assert [m["role"] for m in row["prompt"]] == ["system", "user"]
    assert [m["role"] for m in row["completion"]] == ["assistant", "tool", "user", "assistant"]
    assert row["completion"][0]["tool_calls"][0]["function"]["arguments"] == {"command": "ls  -l"}
    assert row["label"] is False
    assert list(LAYOUT.validate(row)) == []


def test_the_canonical_row_keeps_reasoning_and_the_recorded_arguments(kto_row):
    (row,) = layout("messages").kto_rows(kto_row)
    assert row["completion"][0]["reasoning_content"] == "First look."
    assert row["completion"][0]["tool_calls"][0]["function"]["arguments"] == '{"command": "ls  -l"}'
    assert list(layout("messages").validate(row)) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"completion": (Message("user", "q"), Message("assistant", "a"))}, "completion[0]: a user message"),
        ({"completion": (Message("assistant", " "),)}, "completion: the answer is empty"),
        ({"prompt": ()}, "prompt"),
    ],
)
def test_faults(kto_row, change, fault):
    (row,) = LAYOUT.kto_rows(msgspec.structs.replace(kto_row, **change))
    assert [f for f in LAYOUT.validate(row) if f.startswith(fault)]


def test_a_label_is_true_or_false(kto_row):
    (row,) = LAYOUT.kto_rows(kto_row)
    assert list(LAYOUT.validate({**row, "label": 1}))
