"""Data that is too deep to be looked through is dropped by name; what is just deep or large is not."""

from typing import Any

import pytest

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.message import Message, Tool
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.redaction.depth import LIMIT, deeper_than
from trace_flywheel.redaction.redact import redactor


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def rollout(**fields: Any) -> Rollout:
    return Rollout("run", "t1", "task", Source("eval_run", "r.json", "0" * 64), **fields)


def test_levels_are_counted() -> None:
    assert [deeper_than(nested(3), limit) for limit in (2, 3, 4)] == [True, False, False]
    assert deeper_than([[1], {"a": []}], 1)
    assert not deeper_than([[1], {"a": []}], 3)
    assert not deeper_than("text", 0)


@pytest.mark.parametrize("levels", [LIMIT + 1, 253, 255, 900])
@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("metadata", lambda deep: {"metadata": deep}),
        ("messages[1].extra", lambda deep: {"messages": (Message("user", "x"), Message("user", "y", extra=deep))}),
        ("tools[0].parameters", lambda deep: {"tools": (Tool("run", parameters=deep),)}),
    ],
)
def test_too_deep_data_is_named(levels: int, field: str, fields: Any) -> None:
    drop = redactor("standard").redact(rollout(**fields(nested(levels))))
    assert isinstance(drop, Drop)
    assert (drop.stage, drop.reason) == (Stage.REDACT, "rule_failed")
    text = "nested deeper than 200 levels: too deep to be looked through; flatten or remove it"
    assert drop.evidence == {"field": field, "limit": 200, "text": text}


def test_deep_data_within_the_limit_and_long_lists_stay() -> None:
    kept = rollout(metadata={"deep": nested(LIMIT - 1), "flat": [[] for _ in range(1000)]})
    assert isinstance(redactor("standard").redact(kept), Rollout)


def test_an_integer_of_any_size_is_looked_at() -> None:
    assert isinstance(redactor("none").redact(rollout(metadata={"n": 1 << 80})), Rollout)
