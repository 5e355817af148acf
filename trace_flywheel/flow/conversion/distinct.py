"""Rows that several rollouts give alike, written once: for layouts that hold tasks and not answers."""

import hashlib
from collections.abc import Iterable, Iterator

from trace_flywheel.flow.conversion.rollout import Outcome, Refusal
from trace_flywheel.records.fate import Stage


def distinct(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """The outcomes without rows that an earlier one gave; a rollout left without any names that one."""
    first: dict[bytes, str] = {}
    for outcome in outcomes:
        kept, by = [], None
        for row in outcome.rows:
            owner = first.setdefault(hashlib.sha256(row).digest(), outcome.path)
            if owner == outcome.path:
                kept.append(row)
            else:
                by = owner
        if outcome.rows and not kept:
            outcome.refusal = Refusal(Stage.EXACT_DUPLICATE, "exact_duplicate", {"rollout": by})
            outcome.rows_with_calls = 0
        outcome.rows = kept
        yield outcome
