"""Groups of one conversion: who belongs together, and the signal that each rollout's rows carry.

All rollouts that were selected are members, before any filter on reward, so that filtering never moves a baseline.
One that could not be read stands in every group that what is known of it does not exclude.
"""

import math
from collections.abc import Sequence
from typing import Any

from trace_flywheel.curation.baselines import advantages, no_baseline
from trace_flywheel.curation.group_signals import Member, Signal, group_signals
from trace_flywheel.flow.conversion.rollout import Outcome
from trace_flywheel.records.normalisation import Normalisation

KNOWN_OF_LOST = ("task", "agent", "model", "job")


def signals(
    outcomes: Sequence[Outcome], by: Sequence[str], normalisation: Normalisation, eps: float
) -> tuple[list[Signal | None], list[dict[str, Any]]]:
    """A signal per outcome (None where it belongs to no group) and the block of each group with its members."""
    read = [o for o in outcomes if not o.unreadable and not o.copy]
    members = [_member(o, o.key) for o in read]
    for lost in (o for o in outcomes if o.unreadable and o.key.get("task")):
        members += [_member(lost, key) for key in _possible_keys(lost, read, by)]
    found, blocks = group_signals(members, by, normalisation, eps)
    of_read = iter(found)
    answers = [None if o.unreadable or o.copy else next(of_read) for o in outcomes]
    _list_members(blocks, outcomes, answers)
    return answers, blocks


def advantage_vectors(
    outcomes: Sequence[Outcome],
    found: Sequence[Signal | None],
    blocks: Sequence[dict[str, Any]],
    normalisation: Normalisation,
    eps: float,
) -> list[list[float | None] | None]:
    """Advantages per part of the reward, by the same formula over the members that have the part; None for a rollout
    without parts. A part that only one member has gives null. Groups whose members name different parts say so
    (`vector_names_differ`), and which parts have a mean that max-rl cannot divide by (`non_positive_mean_parts`), in
    the rows too."""
    answers: list[list[float | None] | None] = [None] * len(outcomes)
    told: dict[str, list[dict[str, Any]]] = {block["id"]: [block] for block in blocks}
    for signal in found:
        if signal is not None:
            told[signal.group["id"]].append(signal.group)
    grouped: dict[str, list[int]] = {}
    for position, (outcome, signal) in enumerate(zip(outcomes, found, strict=True)):
        if signal is not None and outcome.vector is not None and outcome.reward is not None and not outcome.retried:
            grouped.setdefault(signal.group["id"], []).append(position)
    for name, positions in grouped.items():
        parts = [outcomes[i].vector or {} for i in positions]
        names = list(dict.fromkeys(key for part in parts for key in part))
        flags: dict[str, Any] = {}
        if len({tuple(part) for part in parts}) > 1:
            flags["vector_names_differ"] = True
        if without := [key for key in names if _has_no_baseline(parts, key, normalisation)]:
            flags["non_positive_mean_parts"] = without
        for group in told[name]:
            group |= flags
        columns = {key: _column(parts, key, normalisation, eps) for key in names}
        for number, position in enumerate(positions):
            answers[position] = [columns[key][number] for key in parts[number]]
    return answers


def _column(
    parts: Sequence[dict[str, float | None]], key: str, normalisation: Normalisation, eps: float
) -> list[float | None]:
    """One part's advantages, in the order of members."""
    values = _values(parts, key)
    if len(values) < 2:
        return [None] * len(parts)
    answers = dict(zip(values, advantages(list(values.values()), normalisation, eps), strict=True))
    return [answers.get(i) for i in range(len(parts))]


def _has_no_baseline(parts: Sequence[dict[str, float | None]], key: str, normalisation: Normalisation) -> bool:
    values = _values(parts, key)
    return len(values) > 1 and no_baseline(normalisation, math.fsum(values.values()) / len(values))


def _values(parts: Sequence[dict[str, float | None]], key: str) -> dict[int, float]:
    return {i: value for i, part in enumerate(parts) if (value := part.get(key)) is not None}


def _member(outcome: Outcome, key: dict[str, str | None]) -> Member:
    return Member(
        key=key,
        reward=outcome.reward,
        error=outcome.error,
        unreadable=outcome.unreadable,
        never_called=outcome.never_called,
        retried=outcome.retried,
    )


def _possible_keys(lost: Outcome, read: Sequence[Outcome], by: Sequence[str]) -> list[dict[str, str | None]]:
    known = {name: value for name in KNOWN_OF_LOST if name in by and (value := lost.key.get(name)) is not None}
    distinct = {
        tuple(o.key.get(name) for name in by): o.key
        for o in read
        if all(o.key.get(name) == value for name, value in known.items())
    }
    return list(distinct.values()) or [lost.key]


def _list_members(blocks: list[dict[str, Any]], outcomes: Sequence[Outcome], answers: Sequence[Signal | None]) -> None:
    by_id: dict[str, list[dict[str, Any]]] = {block["id"]: [] for block in blocks}
    for outcome, signal in zip(outcomes, answers, strict=True):
        if signal is None:
            continue
        member: dict[str, Any] = {
            "rollout": outcome.trace_id,
            "rollout_dir": outcome.path,
            "reward": outcome.reward,
            "advantage": signal.advantage,
        }
        if excluded := signal.group.get("excluded"):
            member["excluded"] = excluded
        by_id[signal.group["id"]].append(member)
    for block in blocks:
        block["members"] = by_id[block["id"]]


def summary_line(blocks: Sequence[dict[str, Any]], by: Sequence[str], normalisation: str) -> str:
    """The `Groups (…)` line of stdout."""
    unscored = sum(block["rollouts"] - block["scored"] for block in blocks)
    single = sum(block["scored"] == 1 and "withheld" not in block for block in blocks)
    withheld = sum("withheld" in block for block in blocks)
    line = f"Groups ({normalisation}, by {','.join(by)}): {len(blocks)}; "
    line += f"{unscored} unscored rollout(s) left out of every baseline"
    if single:
        line += f"; {single} group(s) with one scored rollout (no advantage)"
    if withheld:
        line += f"; {withheld} group(s) withheld"
    return line + "."
