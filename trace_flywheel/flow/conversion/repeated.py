"""A row that an earlier input gave already is written once: a job folder beside the `results.jsonl` that tells of it.

Rows are known again by what they say (`identity_of_row`) and by their reward. One input may hold a row twice, because
two attempts may say the same: each row of a later input stands for one of an earlier.
"""

from collections.abc import Iterable, Iterator

import orjson

from trace_flywheel.flow.conversion.rollout import Outcome, Refusal
from trace_flywheel.flow.validate import has_calls
from trace_flywheel.records.fate import Stage


def without_repeated(inputs: Iterable[Iterable[Outcome]]) -> Iterator[Outcome]:
    """The outcomes of all inputs in their order; each row left out is a refusal that names the earlier one's file."""
    earlier: dict[bytes, list[Outcome]] = {}
    for outcomes in inputs:
        given: dict[bytes, list[Outcome]] = {}
        for outcome in outcomes:
            told = Outcome(outcome.path, trace_id=outcome.trace_id, reward=outcome.reward)
            if outcome.rows:
                for identity in _leave_out(outcome, earlier):
                    given.setdefault(identity, []).append(told)
            yield outcome
        for identity, by in given.items():
            earlier.setdefault(identity, []).extend(by)


def _leave_out(outcome: Outcome, earlier: dict[bytes, list[Outcome]]) -> list[bytes]:
    """Take the rows that stand earlier out of an outcome; the identities of the others."""
    kept, lost = [], []
    for number, identity in enumerate(outcome.identities):
        same = earlier.get(identity, ())
        by = next((one for one in same if one.reward == outcome.reward or None in (one.reward, outcome.reward)), None)
        if by is None:
            kept.append(number)
        else:
            earlier[identity].remove(by)
            evidence = {"trace_id": by.trace_id, "path": by.path}
            call = orjson.loads(outcome.rows[number]).get("exchange_index")
            lost.append(Refusal(Stage.SAME_ROLLOUT, "same_rollout", evidence, call))
    if lost:
        outcome.rows = [outcome.rows[number] for number in kept]
        outcome.rows_with_calls = sum(has_calls(orjson.loads(row)) for row in outcome.rows)
        if not kept:
            outcome.refusal = lost.pop(0)
        outcome.refused += lost
    return [outcome.identities[number] for number in kept]
