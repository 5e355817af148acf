"""The rows that chosen rollouts become, with their provenance."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from trace_flywheel.curation.masking import SupervisedRollout, supervised
from trace_flywheel.flow.reading import finite
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rows import (
    KtoRow,
    PreferencePair,
    PromptRow,
    Provenance,
    RlRow,
    RowKind,
    SftRow,
    named,
    row_id_of,
)

Row = SftRow | PreferencePair | KtoRow | RlRow | PromptRow
GROUP = (
    "group_id",
    "group_size",
    "scored",
    "mean",
    "std",
    "zero_spread",
    "normalisation",
    "eps",
    "non_positive_mean",
    "advantage",
    "policy_age",
)
"""What an RL row says of its group."""
NUMBERS = ("group_size", "scored", "mean", "std", "zero_spread", "eps", "non_positive_mean", "advantage", "policy_age")
"""Of that the numbers and flags, in which no rule finds anything."""
RATES = ("n", "passes")
"""What a prompt says of its task."""


def sft_row(rollout: Rollout, supervise_placeholders: Literal["mask", "keep"]) -> SftRow:
    """The SFT row of a rollout that was chosen."""
    view = supervised(rollout, supervise_placeholders)
    if not isinstance(view, SupervisedRollout):
        raise AssertionError(f"{rollout.trace_id}: chosen although {view.reason}")
    messages = _taught(view.messages)
    row_id = row_id_of(messages, rollout.tools)
    provenance = Provenance(
        row_id,
        view.kind,
        rollout.task_id,
        rollout.run_id,
        (rollout.trace_id,),
        rollout.grader,
        rollout.grader_version,
        (rollout.reward,),
        (_source(rollout),),
        corrected_by=rollout.correction.corrected_by if rollout.correction else None,
        masked_steps=view.masked_steps,
        transforms=view.transforms,
        suite=rollout.suite,
    )
    return SftRow(row_id, messages, rollout.tools, provenance)


def kto_row(rollout: Rollout) -> KtoRow:
    messages = _taught(rollout.messages)
    start = next(i for i, message in enumerate(messages) if message.role == "assistant")
    label = rollout.verdict == "pass"
    row_id, said = named(messages, rollout.tools, label)
    about = _origin(row_id, "kto", rollout)
    return KtoRow(row_id, messages[:start], messages[start:], label, rollout.tools, about, said)


def _origin(row_id: str, kind: RowKind, rollout: Rollout) -> Provenance:
    """The provenance that every row of one rollout has."""
    return Provenance(
        row_id,
        kind,
        rollout.task_id,
        rollout.run_id,
        (rollout.trace_id,),
        rollout.grader,
        rollout.grader_version,
        (rollout.reward,),
        (_source(rollout),),
        transforms=_transforms(rollout),
        suite=rollout.suite,
    )


def prompt_row(rates: Mapping[str, Any], rollout: Rollout) -> PromptRow:
    messages = _taught(rollout.messages)
    start = next((i for i, message in enumerate(messages) if message.role == "assistant"), len(messages))
    n, passes = rates["n"], rates["passes"]
    recorded = rollout.metadata or {}
    answer = next((recorded[key] for key in ("answer", "expected") if isinstance(recorded.get(key), str)), None)
    verifier = f"{rollout.grader}@{rollout.grader_version}" if rollout.grader_version else str(rollout.grader)
    row_id = row_id_of(messages[:start], rollout.tools, rollout.task_id, verifier)
    difficulty = {"n": n, "passes": passes, "pass_at_1": passes / n}
    about = _origin(row_id, "prompt", rollout)
    return PromptRow(row_id, messages[:start], answer, verifier, difficulty, rollout.tools, about)


def rl_row(group: Mapping[str, Any], rollout: Rollout) -> RlRow:
    # A rollout is an attempt: two that say the same are still two, so its address is part of its name.
    row_id, said = named(rollout.messages, rollout.tools, rollout.run_id, rollout.trace_id)
    provenance = msgspec.structs.replace(_origin(row_id, "rl", rollout), group_id=str(group["group_id"]))
    advantage, about, policy = told_of(group, rollout.policy_version)
    return RlRow(row_id, rollout.messages, rollout.tools, rollout.reward, advantage, about, provenance, policy, said)


def told_of(group: Mapping[str, Any], version: str | None) -> tuple[float | None, dict[str, Any], dict[str, Any]]:
    """Advantage, group and policy of an RL row: all in it that other rollouts have a say in."""
    about = {
        "id": str(group["group_id"]),
        "size": int(group["group_size"]),
        "scored": int(group["scored"]),
        "mean": finite(group["mean"]),
        "std": finite(group["std"]),
        "zero_spread": bool(group["zero_spread"]),
        "normalisation": str(group["normalisation"]),
        "eps": float(group["eps"]),
    }
    if bool(group["non_positive_mean"]):
        about["non_positive_mean"] = True
    age = finite(group["policy_age"])
    policy = {"version": version, "age_days": None if age is None else round(age, 3)}
    return finite(group["advantage"]), about, policy


def pairs_among(
    rollouts: Iterable[tuple[int, Rollout]], table: Sequence[Mapping[Hashable, Any]]
) -> Iterator[tuple[tuple[int, ...], PreferencePair]]:
    """The pairs of a table from their members, each as soon as its second one was read; only first ones wait."""
    uses: dict[int, list[int]] = {}
    for number, pair in enumerate(table):
        uses.setdefault(pair["chosen"], []).append(number)
        uses.setdefault(pair["rejected"], []).append(number)
    left = {row: len(numbers) for row, numbers in uses.items()}
    waiting: dict[int, Rollout] = {}
    for row, rollout in rollouts:
        waiting[row] = rollout
        for number in uses[row]:
            pair = table[number]
            chosen, rejected = pair["chosen"], pair["rejected"]
            if chosen not in waiting or rejected not in waiting:
                continue
            yield (chosen, rejected), _pair(pair, waiting[chosen], waiting[rejected])
            for member in (chosen, rejected):
                left[member] -= 1
                if not left[member] and member != row:
                    del waiting[member]
        if not left[row]:
            del waiting[row]


def _pair(pair: Mapping[Hashable, Any], chosen: Rollout, rejected: Rollout) -> PreferencePair:
    prefix = int(pair["prefix"])
    better, worse = _taught(chosen.messages), _taught(rejected.messages)
    parts = better[:prefix], better[prefix:], worse[prefix:]
    row_id = row_id_of(*parts, chosen.tools)
    provenance = Provenance(
        row_id,
        "pair",
        chosen.task_id,
        chosen.run_id,
        (chosen.trace_id, rejected.trace_id),
        chosen.grader,
        chosen.grader_version,
        (chosen.reward, rejected.reward),
        (_source(chosen), _source(rejected)),
        delta=float(pair["delta"]),
        delta_source=pair["delta_source"],
        rejected_is_min=bool(pair["rejected_is_min"]),
        group_size=int(pair["group_size"]),
        spread=float(pair["sigma"]),
        group_id=str(pair["group_id"]),
        rejected_run_id=rejected.run_id,
        transforms=tuple(sorted({*_transforms(chosen), *_transforms(rejected)})),
        suite=chosen.suite,
    )
    return PreferencePair(row_id, *parts, chosen.tools, provenance)


def _taught(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Messages without what no trainer of these rows learns from: token ids, log-probabilities, the source's extras."""
    return tuple(
        msgspec.structs.replace(m, token_ids=None, logprobs=None, extra=None)
        if m.token_ids is not None or m.logprobs is not None or m.extra is not None
        else m
        for m in messages
    )


def _transforms(rollout: Rollout) -> tuple[str, ...]:
    return ("redacted",) if rollout.redactions else ()


def _source(rollout: Rollout) -> str:
    return f"{rollout.source.path}#{rollout.source.sha256}"
