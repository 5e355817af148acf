"""Results as a Markdown table for people and as one JSON document for programs."""

from collections.abc import Sequence
from typing import Any

from benchmarks.suites import Result

HEAD = ("what", "product", "rival", "times better (spread)", "gate")


def table(results: Sequence[Result]) -> str:
    """A table for each suite, in the order of the results."""
    lines: list[str] = []
    suite = None
    for result in results:
        if result.suite != suite:
            suite = result.suite
            lines += ["", f"### {suite}", "", f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
        gate = (
            ""
            if result.gate is None or result.passed is None
            else f">= {result.gate:.2g}: {'held' if result.passed else 'MISSED'}"
        )
        cells = (result.what, result.own, result.rival, str(result.ratio or ""), gate)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines[1:])


def document(results: Sequence[Result], machine: dict[str, Any], rollouts: int, rounds: int) -> dict[str, Any]:
    """Everything that was measured; `ratio` is [median, least, most]."""
    return {
        "machine": machine,
        "rollouts": rollouts,
        "rounds": rounds,
        "results": [
            {**result._asdict(), "ratio": list(result.ratio) if result.ratio else None, "passed": result.passed}
            for result in results
        ],
    }
