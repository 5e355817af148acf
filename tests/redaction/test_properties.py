"""Invariants on arbitrary input: idempotent, JSON-safe, numbered in order, nothing left."""

import json
import re
from typing import Any

from hypothesis import given, settings

from tests.redaction.texts import objects, rollouts, texts, values
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.redaction.redact import PLACEHOLDER, NumberFindingError, SecretLeftError, redactor


def skeleton(value: Any) -> Any:
    """Everything but the text: keys, numbers, booleans, nulls, nesting."""
    if isinstance(value, dict):
        return {key: skeleton(item) for key, item in value.items()}
    if isinstance(value, list):
        return [skeleton(item) for item in value]
    return "" if isinstance(value, str) else value


@settings(max_examples=150)
@given(rollouts)
def test_redacting_twice_changes_nothing(rollout: Rollout) -> None:
    once = redactor("all").redact(rollout)
    if isinstance(once, Drop):
        assert once.reason == "number_finding" or once.evidence["place"] == "key"
    else:
        assert redactor("all").redact(once) == once


@settings(max_examples=150)
@given(objects)
def test_structure_never_changes(value: dict[str, Any]) -> None:
    try:
        redacted, _ = redactor("all").redact_value(value)
    except NumberFindingError:
        return
    except SecretLeftError as left:
        if left.where != {"place": "key"}:
            raise
        return
    assert skeleton(redacted) == skeleton(value)


@settings(max_examples=150)
@given(values)
def test_json_text_stays_json(value: Any) -> None:
    text = json.dumps({"v": value})
    try:
        redacted, counts = redactor("all").redact_value(text)
    except NumberFindingError:
        return
    except SecretLeftError as left:
        if left.where != {"place": "key"}:
            raise
        return
    assert skeleton(json.loads(redacted)) == skeleton(json.loads(text))
    assert (redacted == text) == (not counts)


@settings(max_examples=200)
@given(texts)
def test_nothing_is_found_after_redaction_and_marks_come_in_order(text: str) -> None:
    redacted, counts = redactor("all").redact_value(text)
    assert redactor("all").scan(redacted) == {}
    assert sum(counts.values()) <= len(PLACEHOLDER.findall(redacted)) or not counts
    new = [m for m in PLACEHOLDER.findall(redacted) if m not in PLACEHOLDER.findall(text)]
    for rule in {name for name, _ in new}:
        numbers = [int(number) for name, number in new if name == rule]
        firsts = list(dict.fromkeys(numbers))
        assert firsts == sorted(firsts)


@settings(max_examples=100)
@given(texts)
def test_what_is_not_found_is_not_touched(text: str) -> None:
    redacted, _ = redactor("standard").redact_value(text)
    at = 0
    for kept in re.split(PLACEHOLDER.pattern.replace("(", "(?:"), redacted):
        at = text.find(kept, at)
        assert at >= 0, kept
        at += len(kept)
