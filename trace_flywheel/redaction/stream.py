"""Files and pipes: one line at a time, JSON lines inside their values, other lines as text.

A line is a record of its own: placeholders are numbered inside it. A line that cannot be made clean is left out and
reported, never its value.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from trace_flywheel.redaction.redact import NumberFindingError, Redactor, SecretLeftError


class Redacted(msgspec.Struct, frozen=True):
    """One line after redaction. `text` is None where the line is left out, for `reason` and `rule`."""

    number: int
    """Of the line, from 1."""
    text: str | None
    findings: dict[str, int] = msgspec.field(default_factory=dict)
    """Replaced, by rule."""
    reason: str | None = None
    rule: str | None = None

    def report(self) -> dict[str, Any]:
        """The line's entry in a report: places and rules only."""
        entry: dict[str, Any] = {"line": self.number, "findings": self.findings}
        return entry if self.reason is None else {**entry, "dropped": self.reason, "rule": self.rule}


def redact_stream(lines: Iterable[str], redactor: Redactor) -> Iterator[Redacted]:
    """Every line redacted, in order; line ends are the caller's."""
    for number, line in enumerate(lines, 1):
        try:
            text, findings = redactor.redact_value(line)
        except NumberFindingError as error:
            yield Redacted(number, None, reason="number_finding", rule=error.rule)
        except SecretLeftError as error:
            yield Redacted(number, None, reason="secret_left", rule=error.rule)
        else:
            yield Redacted(number, text, findings)
