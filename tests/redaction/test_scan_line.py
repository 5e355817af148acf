"""A row is judged alike as a value and as the line that it stands in."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.redaction.depth import LIMIT, DeepDataError
from trace_flywheel.redaction.policy import policy_named
from trace_flywheel.redaction.redact import Redactor, redactor
from trace_flywheel.redaction.scanner import Scanner

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
MAIL = "jane.doe@corp-mail.com"
PIECES = st.sampled_from(
    [
        TOKEN,
        MAIL,
        f"x\n{TOKEN}",
        f'{{"token": "{TOKEN}"}}',
        "password",
        "hunter2hunter2",
        "\x1b[31m",
        "é",
        "{",
        '"',
        "\\u0067",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=8), max_size=4).map("".join)
ROWS = st.dictionaries(
    TEXTS,
    st.recursive(
        TEXTS | st.integers(-(2**60), 2**60) | st.booleans() | st.none() | st.floats(allow_nan=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@given(ROWS)
def test_a_line_is_judged_as_its_value(row: dict[str, Any]) -> None:
    rules = redactor("standard")
    assert rules.scan_line(orjson.dumps(row)) == rules.scan(row)


MESSAGES = st.dictionaries(st.sampled_from(["role", "content", "name", "value", "password", TOKEN]), TEXTS, max_size=3)


@given(st.lists(MESSAGES, max_size=5), st.lists(MESSAGES | TEXTS, max_size=3), TEXTS)
def test_a_line_of_messages_is_judged_as_its_value(prompt: list[Any], mixed: list[Any], text: str) -> None:
    rules = redactor("standard")
    row = {"row_id": "4111111111111111", "prompt": prompt, "mixed": mixed, "task_id": text}
    assert rules.scan_line(orjson.dumps(row)) == rules.scan(row)


def test_no_second_value_of_a_key_hides_the_first() -> None:
    line = orjson.dumps({"content": TOKEN})[:-1] + b',"content":"x"}'
    assert redactor("standard").scan_line(line) == redactor("standard").scan({"content": TOKEN}) != {}


def test_a_line_that_is_no_json_is_looked_at_as_a_text() -> None:
    line = orjson.dumps({"content": TOKEN})[:-1]
    assert redactor("standard").scan_line(line) != {}


def test_what_is_found_is_told_by_rule() -> None:
    row = {"messages": [{"role": "user", "content": f"use {TOKEN} and {MAIL}"}], "task_id": "t"}
    found = redactor("standard").scan_line(orjson.dumps(row))
    assert set(found.values()) == {1}
    assert len(found) == 2
    assert redactor("standard").scan_line(orjson.dumps({"task_id": "t"})) == {}


def test_a_secret_spelt_with_escapes_is_seen() -> None:
    spelt = json.dumps({"content": TOKEN}).replace("ghp_", "\\u0067hp_").encode()
    assert redactor("standard").scan_line(spelt) == redactor("standard").scan({"content": TOKEN}) != {}


def test_a_line_nested_too_deeply_is_refused_as_its_value_is() -> None:
    value: Any = "x"
    for _ in range(LIMIT + 1):
        value = [value]
    with pytest.raises(DeepDataError):
        redactor("standard").scan_line(json.dumps({"a": value}).encode())


def test_many_brackets_are_no_depth() -> None:
    rules, row = redactor("standard"), {"messages": [{"content": "[x]"}] * LIMIT, "b": MAIL}
    assert rules.scan_line(orjson.dumps(row)) == rules.scan(row) == {"email": 1}


def test_a_rule_at_work_when_the_budget_is_spent_counts_as_found() -> None:
    policy = policy_named("standard")
    late = Redactor(Scanner(policy.in_force()), policy, budget=-1.0)
    row = {"content": TOKEN}
    assert late.scan_line(orjson.dumps(row)) == late.scan(row) != {}
