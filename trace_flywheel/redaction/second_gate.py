"""kingfisher as a second opinion on finished rows: other people's rules, in this process, without the network.

An optional extra (`pip install 'trace-flywheel[kingfisher]'`). It names what it finds `kingfisher:<rule>`; nothing is
replaced on its word, a row with a finding is left out.
"""

from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from trace_flywheel.records.errors import FlywheelError

SECONDS = 60.0
"""A row that takes longer is an error: kingfisher never returns a part of its findings."""


class SecondGateError(FlywheelError):
    """The second gate was asked for and cannot be used."""


def gate_version() -> str | None:
    """Of the rules that kingfisher brings along; None where it is not installed."""
    try:
        return version("kingfisher-secret-scanner")
    except PackageNotFoundError:
        return None


def found_by_kingfisher(text: str) -> Iterable[tuple[str, str]]:
    """(rule, value) of every visible finding."""
    for finding in _scanner().scan(text, timeout=SECONDS):
        if finding.visible:
            yield f"kingfisher:{finding.rule_id}", str(finding.secret)


@cache
def _scanner() -> Any:
    try:
        import kingfisher_sdk
    except ImportError:
        raise SecondGateError(
            "redaction.second_gate = kingfisher: the package is missing; "
            "pip install 'trace-flywheel[kingfisher]', or set it to none"
        ) from None
    return kingfisher_sdk.Scanner()
