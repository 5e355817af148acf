"""Records in, clean records out: JSON stays JSON, text stays text, an unclean record is named and left out."""

import json

import pytest

from trace_flywheel.redaction.redact import Redactor, redactor
from trace_flywheel.redaction.stream import records_of, redact_stream

GITHUB = "ghp_" + "a" * 36


def test_records_are_redacted_by_themselves() -> None:
    records = [json.dumps({"t": f'a "{GITHUB}"'}), f"export T={GITHUB}", "plain", '{"card": 4111111111111111}']
    first, second, third, fourth = redact_stream(enumerate(records, 1), redactor("standard"))
    assert json.loads(first.text or "") == {"t": 'a "[REDACTED:github_token:1]"'}
    assert (second.number, second.text) == (2, "export T=[REDACTED:github_token:1]")
    assert [(s.place, s.rule) for s in second.findings] == [("line 2", "github_token")]
    assert (third.text, third.findings) == ("plain", ())
    assert (fourth.text, fourth.reason, fourth.rule) == (None, "number_finding", "credit_card")


def test_a_crash_leaves_the_record_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Redactor, value: object, place: str = "") -> None:
        raise RuntimeError("a validator failed")

    monkeypatch.setattr(Redactor, "redact_value_told", fails)
    (only,) = redact_stream([(1, "text")], redactor("standard"))
    assert (only.text, only.reason, only.rule) == (None, "rule_failed", "RuntimeError")


def test_text_lines_are_taken_together_and_json_lines_alone() -> None:
    lines = ["a\n", "b\n", '{"x": 1}\n', "c\n", "[1]\n", '{"y": 2}']
    assert list(records_of(lines, 100)) == [
        (1, "a\nb\n"),
        (3, '{"x": 1}\n'),
        (4, "c\n"),
        (5, "[1]\n"),
        (6, '{"y": 2}'),
    ]


def test_long_text_is_cut_at_an_empty_line() -> None:
    assert list(records_of(["aaaa\n", "\n", "b\n", "b\n"], 4)) == [(1, "aaaa\n"), (2, "\nb\nb\n")]


def test_text_without_an_empty_line_is_cut_too() -> None:
    assert [n for n, _ in records_of(["aaaa\n"] * 10, 4)] == [1, 5, 9]
