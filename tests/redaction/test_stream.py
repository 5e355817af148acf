"""Lines in, clean lines out: JSON stays JSON, text stays text, an unclean line is named and left out."""

import json

from trace_flywheel.redaction.redact import redactor
from trace_flywheel.redaction.stream import redact_stream

GITHUB = "ghp_" + "a" * 36


def test_lines_are_records_of_their_own() -> None:
    lines = [json.dumps({"t": f'a "{GITHUB}"'}), f"export T={GITHUB}", "plain", '{"card": 4111111111111111}']
    first, second, third, fourth = redact_stream(lines, redactor("standard"))
    assert json.loads(first.text or "") == {"t": 'a "[REDACTED:github_token:1]"'}
    assert (second.number, second.text) == (2, "export T=[REDACTED:github_token:1]")
    assert (third.text, third.findings) == ("plain", {})
    assert fourth.text is None
    assert [line.report() for line in (first, third, fourth)] == [
        {"line": 1, "findings": {"github_token": 1}},
        {"line": 3, "findings": {}},
        {"line": 4, "findings": {}, "dropped": "number_finding", "rule": "credit_card"},
    ]
