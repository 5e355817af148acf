"""Files and pipes: one line at a time, JSON lines inside their values, other lines as text.

A line is a record of its own: placeholders are numbered inside it. Key blocks go over several lines, so lines of text
between JSON lines are taken together (`records_of`). What cannot be made clean is left out and reported,
never its value.
"""

from collections.abc import Iterable, Iterator

import msgspec

from trace_flywheel.redaction.budget import RuleTimeoutError
from trace_flywheel.redaction.policy import Sighting
from trace_flywheel.redaction.redact import NumberFindingError, Redactor, SecretLeftError


class Redacted(msgspec.Struct, frozen=True):
    """One record after redaction. `text` is None where it is left out, for `reason` and `rule`."""

    number: int
    """Of its first line, from 1."""
    text: str | None
    findings: tuple[Sighting, ...] = ()
    reason: str | None = None
    rule: str | None = None


def redact_stream(records: Iterable[tuple[int, str]], redactor: Redactor) -> Iterator[Redacted]:
    """Every record (its line number, its text) redacted, in order."""
    for number, record in records:
        try:
            text, findings = redactor.redact_value_told(record, f"line {number}")
        except NumberFindingError as error:
            yield Redacted(number, None, reason="number_finding", rule=error.rule)
        except SecretLeftError as error:
            yield Redacted(number, None, reason="secret_left", rule=error.rule)
        except RuleTimeoutError as error:
            yield Redacted(number, None, reason="rule_failed", rule=error.rule)
        except Exception as error:  # fail closed: whatever goes wrong in a rule, the text goes no further
            yield Redacted(number, None, reason="rule_failed", rule=type(error).__name__)
        else:
            yield Redacted(number, text, findings)


def records_of(lines: Iterable[str], block: int) -> Iterator[tuple[int, str]]:
    """Lines with their ends, as records: a line that opens a JSON object or array is one; lines of text between such
    are one together, because keys go over several lines, cut at an empty line after `block` characters."""
    held: list[str] = []
    first, size = 1, 0
    for number, line in enumerate(lines, 1):
        is_json = line.lstrip()[:1] in ("{", "[") and line.rstrip()[-1:] in ("}", "]")
        if held and (is_json or size > 4 * block or (size > block and not line.strip())):
            yield first, "".join(held)
            held, size = [], 0
        if is_json:
            yield number, line
            continue
        if not held:
            first = number
        held.append(line)
        size += len(line)
    if held:
        yield first, "".join(held)
