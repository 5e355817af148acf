"""Preference pairs from recordings: attempts at one prompt, parted at the first turn in which they differ.

A group is the rollouts of one context (system text, tools, first user turn). Its pair is the best against the worst
whose margin counts and whose first difference is an assistant turn, by reward where the group's rewards differ, else
by judge score; the prompt is what both share and the two answers are the next assistant turn of each. A correction
gives a pair of its own, the corrected turn over the recorded one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from trace_flywheel.curation.divergence import Attempt, divergence
from trace_flywheel.flow.recordings.choice import entries_of
from trace_flywheel.flow.recordings.rows import Harvest
from trace_flywheel.records.canonical import folded
from trace_flywheel.records.index import IndexEntry
from trace_flywheel.records.message import Message, text_of
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rows import PreferencePair, Provenance, row_id_of
from trace_flywheel.trainers.atraj_sft import turns_of
from trace_flywheel.trainers.layout import Row
from trace_flywheel.trainers.trl_dpo import LAYOUT as TRL_DPO

Shape = Literal["trl", "posttrainllm"]
_SOURCES: tuple[Literal["reward", "judge"], ...] = ("reward", "judge")


class Pair(msgspec.Struct, frozen=True):
    pair: PreferencePair
    label: str | None
    """The recordings' task."""
    by: Literal["reward", "judge", "correction"]
    reward_scope: Literal["step", "rollout"] | None
    """Whether the rewards stand on the two turns themselves or on a later step of their rollouts."""
    steps: tuple[int | None, int | None]


class Pairs(msgspec.Struct):
    """The pairs, and by reason the groups (rollouts for corrections) that gave none."""

    pairs: list[Pair] = msgspec.field(default_factory=list)
    none: dict[str, int] = msgspec.field(default_factory=dict)

    def no(self, reason: str) -> None:
        self.none[reason] = self.none.get(reason, 0) + 1


def pairs_of(harvests: Sequence[Harvest], scores: Mapping[int, float], min_margin: float) -> Pairs:
    """At most one pair per context, and one per corrected rollout. Order: by path of the chosen side."""
    answer = Pairs()
    entries = entries_of(harvests, scores)
    groups: dict[str, list[int]] = {}
    for i, entry in enumerate(entries):
        if harvests[i].rollout.correction is not None:
            _corrected(harvests[i].rollout, answer)
        elif entry.pair_quality_reason is None:
            groups.setdefault(entry.context_hash, []).append(i)
        else:
            answer.no(entry.pair_quality_reason)
    for _, members in sorted(groups.items()):
        if len(members) == 1:
            answer.no("single_rollout")
            continue
        _of_group(harvests, entries, members, min_margin, answer)
    answer.pairs.sort(key=lambda p: (p.pair.provenance.source, p.pair.row_id))
    answer.none = dict(sorted(answer.none.items()))
    return answer


def _of_group(
    harvests: Sequence[Harvest], entries: Sequence[IndexEntry], members: list[int], min_margin: float, answer: Pairs
) -> None:
    reason = "no_score"
    for by in ("reward", "judge"):
        scored = [
            (s, i)
            for i in members
            if (s := entries[i].reward if by == "reward" else entries[i].judge_score) is not None
        ]
        if len(scored) < 2:
            continue
        reason = "no_margin"
        for margin, chosen, rejected in _combinations(scored, entries):
            if margin <= 0 or margin < min_margin:
                break
            at = divergence(_attempt(entries[chosen]), _attempt(entries[rejected]))
            if isinstance(at, int) and _says(
                harvests[chosen].rollout.messages[at], harvests[rejected].rollout.messages[at]
            ):
                sides = harvests[chosen].rollout, harvests[rejected].rollout
                answer.pairs.append(_pair(sides, at, margin, "reward" if by == "reward" else "judge", len(scored)))
                return
            reason = "blank_turn" if isinstance(at, int) else at.reason
    answer.no(reason)


def _combinations(scored: list[tuple[float, int]], entries: Sequence[IndexEntry]) -> Iterator[tuple[float, int, int]]:
    """Largest margin first; equal ones by content, never by name."""
    found = [(high - low, c, r) for high, c in scored for low, r in scored if high > low]
    return iter(sorted(found, key=lambda x: (-x[0], entries[x[1]].content_hash, entries[x[2]].content_hash)))


def _attempt(entry: IndexEntry) -> Attempt:
    return Attempt(entry.roles, entry.message_hashes, entry.message_norms)


def _says(*turns: Message) -> bool:
    return all(turn.tool_calls or text_of(turn.content).strip() for turn in turns)


def _pair(
    sides: tuple[Rollout, Rollout], at: int, margin: float, by: Literal["reward", "judge"], group_size: int
) -> Pair:
    chosen, rejected = sides
    steps = tuple(_step(side, at) for side in sides)
    scope: Literal["step", "rollout"] | None = None
    if by == "reward":
        scope = (
            "step" if all(_last_rewarded(side) == step for side, step in zip(sides, steps, strict=True)) else "rollout"
        )
    prompt, answers = chosen.messages[:at], (chosen.messages[at], rejected.messages[at])
    made = _preference(sides, prompt, answers, margin, f"rollouts={group_size}")
    return Pair(made, chosen.suite, by, scope, (steps[0], steps[1]))


def _corrected(rollout: Rollout, answer: Pairs) -> None:
    correction = rollout.correction
    turns = [i for i, message in enumerate(rollout.messages) if message.role == "assistant"]
    assert correction is not None, "asked for corrected rollouts only"
    turn = len(turns) - 1 if correction.turn is None else correction.turn
    if not 0 <= turn < len(turns):
        answer.no("mask_mismatch")
        return
    at = turns[turn]
    original = rollout.messages[at]
    if not original.tool_calls and folded(text_of(original.content)) == folded(correction.content):
        answer.no("correction_changes_nothing")
        return
    answers = Message("assistant", correction.content), original
    if not _says(*answers):
        answer.no("blank_turn")
        return
    made = _preference((rollout, rollout), rollout.messages[:at], answers, None, "correction")
    step = _step(rollout, at)
    answer.pairs.append(Pair(made, rollout.suite, "correction", None, (step, step)))


def _preference(
    sides: tuple[Rollout, Rollout],
    prompt: tuple[Message, ...],
    answers: tuple[Message, Message],
    margin: float | None,
    group: str,
) -> PreferencePair:
    chosen, rejected = sides
    row_id = row_id_of(prompt, answers[:1], answers[1:])
    provenance = Provenance(
        row_id=row_id,
        kind="pair",
        task_id=chosen.task_id,
        run_id=chosen.run_id,
        trace_ids=(chosen.trace_id, rejected.trace_id),
        grader=chosen.grader,
        rewards=(chosen.reward, rejected.reward),
        source=tuple(f"{side.source.path}#{side.source.sha256}" for side in sides),
        corrected_by=chosen.correction.corrected_by if chosen.correction else None,
        delta=margin,
        group_id=group,
        transforms=("redacted",) if chosen.redactions or rejected.redactions else (),
    )
    return PreferencePair(row_id, prompt, answers[:1], answers[1:], chosen.tools, provenance)


def _step(rollout: Rollout, at: int) -> int | None:
    steps = (rollout.metadata or {}).get("assistant_steps", ())
    before = sum(message.role == "assistant" for message in rollout.messages[:at])
    return steps[before] if before < len(steps) else None


def _last_rewarded(rollout: Rollout) -> int | None:
    rewards = (rollout.rewards or {}).get("steps", ())
    return next((i for i in reversed(range(len(rewards))) if rewards[i] is not None), None)


def pair_row(found: Pair, shape: Shape, task: str | None) -> Row:
    """The pair as it is written: TRL's shape, or whole conversations whose last turn is the answer, and provenance."""
    made = found.pair
    if shape == "trl":
        row = next(iter(TRL_DPO.pair_rows(made)))
    else:
        row = {side: _whole(made.prompt, getattr(made, side)) for side in ("chosen", "rejected")}
    told = made.provenance
    return row | {
        "task": task if task is not None else found.label,
        "row_id": made.row_id,
        "preferred_by": found.by,
        "margin": told.delta,
        "rewards": list(told.rewards),
        "reward_scope": found.reward_scope,
        "rollout_ids": list(told.trace_ids),
        "steps": list(found.steps),
        "sources": list(told.source),
        "transforms": list(told.transforms),
    }


def _whole(prompt: tuple[Message, ...], answer: tuple[Message, ...]) -> list[Row]:
    keep = ("role", "content", "tool_call", "tool_result", "output_ids")
    return [{key: turn[key] for key in keep if key in turn} for turn in turns_of((*prompt, *answer))]
