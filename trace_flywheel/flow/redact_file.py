"""Lines in, clean lines out, and a report that names rules, places and fingerprints and never a value."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, BinaryIO

import msgspec

from trace_flywheel.redaction.policy import Policy, Sighting
from trace_flywheel.redaction.redact import Redactor
from trace_flywheel.redaction.stream import records_of, redact_stream

BLOCK = 1_000_000
"""Characters of plain text that are redacted together: a key block is found whole, and memory stays bounded."""


class Told(msgspec.Struct):
    """What came of a file."""

    written: int = 0
    sightings: list[Sighting] = []
    left_out: list[tuple[int, str, str]] = []
    """(first line, reason, rule) of records that could not be made clean."""

    def by_rule(self) -> Counter[str]:
        return Counter(sighting.rule for sighting in self.sightings)

    def as_json(self, policy: Policy) -> dict[str, Any]:
        """The report as plain data, in a fixed order."""
        families = {rule.name: rule.family for rule in policy.in_force()}
        values: dict[str, set[str]] = {}
        for sighting in self.sightings:
            values.setdefault(sighting.rule, set()).add(sighting.fingerprint)
        return {
            "pii": policy.pii,
            "ruleset": policy.digest(),
            "allow": [msgspec.to_builtins(entry) for entry in policy.allow],
            "records": self.written,
            "rules": {
                rule: {"family": families[rule], "findings": n, "values": len(values[rule])}
                for rule, n in sorted(self.by_rule().items())
            },
            "places": [
                {"place": place, "rule": rule, "fingerprint": print_, "findings": n}
                for (place, rule, print_), n in Counter(self.sightings).items()
            ],
            "left_out": [{"line": line, "reason": reason, "rule": rule} for line, reason, rule in self.left_out],
        }


def redact_lines(lines: Iterable[str], target: BinaryIO, redactor: Redactor) -> Told:
    """Write every record that could be made clean to `target`, as it comes."""
    told = Told()
    for record in redact_stream(records_of(lines, BLOCK), redactor):
        if record.text is None:
            told.left_out.append((record.number, record.reason or "", record.rule or ""))
            continue
        target.write(record.text.encode())
        told.written += 1
        told.sightings += record.findings
    target.flush()
    return told
