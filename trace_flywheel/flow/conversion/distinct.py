"""Rows that several rollouts give alike, written once: for layouts that hold tasks and not answers."""

from collections.abc import Callable, Iterable, Iterator

import orjson

from trace_flywheel.flow.conversion.rollout import Outcome, Refusal
from trace_flywheel.records.fate import Stage
from trace_flywheel.trainers.layout import Row


def distinct(outcomes: Iterable[Outcome], identity: Callable[[Row], tuple[str, ...]]) -> Iterator[Outcome]:
    """The outcomes without rows that an earlier one gave; a rollout left without any names that one."""
    first: dict[tuple[str, ...], str] = {}
    for outcome in outcomes:
        kept, by = [], None
        for row in outcome.rows:
            owner = first.setdefault(identity(orjson.loads(row)), outcome.path)
            if owner == outcome.path:
                kept.append(row)
            else:
                by = owner
        if outcome.rows and not kept:
            outcome.refusal = Refusal(Stage.EXACT_DUPLICATE, "exact_duplicate", {"rollout": by})
            outcome.rows_with_calls = 0
        outcome.rows = kept
        yield outcome
