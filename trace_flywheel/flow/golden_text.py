"""A golden as the rollouts are: the same redactor over it, or a redacted name would hide it from the search.

What a home or a fate says of a golden comes from here, so nothing in it may be as the file has it: its names are
masked, and a text that redaction of data refuses (a secret in a key, a card as a number) is redacted as plain text.
"""

import msgspec

from trace_flywheel.records.golden import Golden
from trace_flywheel.redaction.redact import NumberFindingError, Redactor, SecretLeftError

PLAIN = "text: "
"""Before a text that is not to be taken for JSON."""


def redacted_golden(golden: Golden, redactor: Redactor) -> Golden:
    """The golden without secrets and personal data."""
    masked = redactor.masked_record(msgspec.structs.replace(golden, statement="", answer=""))
    return msgspec.structs.replace(
        masked, statement=_redacted(golden.statement, redactor), answer=_redacted(golden.answer, redactor)
    )


def _redacted(text: str, redactor: Redactor) -> str:
    try:
        return str(redactor.redact_value(text)[0])
    except (NumberFindingError, SecretLeftError):
        try:
            return str(redactor.redact_value(PLAIN + text)[0]).removeprefix(PLAIN)
        except SecretLeftError:
            return ""
