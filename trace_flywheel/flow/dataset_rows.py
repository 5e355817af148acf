"""The rows that chosen rollouts become, with their provenance, from the text of the run partitions.

Texts come one part at a time, so memory does not grow with the dataset; of a pair only the first member waits.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
import pandas as pd

from trace_flywheel.curation.masking import SupervisedRollout, supervised
from trace_flywheel.flow.funnel import Curated
from trace_flywheel.flow.texts import finite, texts
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rows import KtoRow, PreferencePair, PromptRow, Provenance, RlRow, RowKind, SftRow, row_id_of
from trace_flywheel.settings import Settings

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


def rows_of(lake: Lake, curated: Curated, settings: Settings) -> Iterator[tuple[tuple[int, ...], Row]]:
    """(the frame rows it is made from, row) of everything that was chosen."""
    if curated.kind == "pair":
        yield from _pair_rows(lake, curated)
        return
    groups = _Groups(curated.groups)
    for row, rollout in texts(lake, curated.index, curated.kept):
        if curated.kind == "rl":
            yield (row,), _rl_row(groups[row], rollout)
        elif curated.kind == "prompt":
            yield (row,), _prompt_row(curated, row, rollout)
        elif curated.kind == "kto":
            yield (row,), _kto_row(rollout)
        else:
            yield (row,), sft_row(rollout, settings.redaction.supervise_placeholders)


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


def _kto_row(rollout: Rollout) -> KtoRow:
    messages = _taught(rollout.messages)
    start = next(i for i, message in enumerate(messages) if message.role == "assistant")
    label = rollout.verdict == "pass"
    row_id = row_id_of(messages, rollout.tools, label)
    return KtoRow(row_id, messages[:start], messages[start:], label, rollout.tools, _origin(row_id, "kto", rollout))


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


def _prompt_row(curated: Curated, row: int, rollout: Rollout) -> PromptRow:
    assert curated.rates is not None
    messages = _taught(rollout.messages)
    start = next((i for i, message in enumerate(messages) if message.role == "assistant"), len(messages))
    n, passes = curated.rates[["n", "passes"]].iloc[row].tolist()
    recorded = rollout.metadata or {}
    answer = next((recorded[key] for key in ("answer", "expected") if isinstance(recorded.get(key), str)), None)
    verifier = f"{rollout.grader}@{rollout.grader_version}" if rollout.grader_version else str(rollout.grader)
    row_id = row_id_of(messages[:start], rollout.tools, rollout.task_id, verifier)
    difficulty = {"n": n, "passes": passes, "pass_at_1": passes / n}
    about = _origin(row_id, "prompt", rollout)
    return PromptRow(row_id, messages[:start], answer, verifier, difficulty, rollout.tools, about)


class _Groups:
    """The group of each row, column by column: pandas takes 0.1 ms for a row that it gives as a dictionary."""

    def __init__(self, table: pd.DataFrame | None) -> None:
        self._columns = {} if table is None else {name: table[name].to_numpy() for name in GROUP}

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {name: column[row] for name, column in self._columns.items()}


def _rl_row(group: Mapping[str, Any], rollout: Rollout) -> RlRow:
    # A rollout is an attempt: two that say the same are still two, so its address is part of its name.
    row_id = row_id_of(rollout.messages, rollout.tools, rollout.run_id, rollout.trace_id)
    provenance = msgspec.structs.replace(_origin(row_id, "rl", rollout), group_id=str(group["group_id"]))
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
    advantage = finite(group["advantage"])
    age = finite(group["policy_age"])
    policy = {"version": rollout.policy_version, "age_days": None if age is None else round(age, 3)}
    return RlRow(row_id, rollout.messages, rollout.tools, rollout.reward, advantage, about, provenance, policy)


def _pair_rows(lake: Lake, curated: Curated) -> Iterator[tuple[tuple[int, ...], PreferencePair]]:
    """Pairs, each as soon as its second member has been read; only first members wait."""
    assert curated.pairs is not None
    table = curated.pairs.table
    uses: dict[int, list[int]] = {}
    for number, (chosen, rejected) in enumerate(zip(table["chosen"].tolist(), table["rejected"].tolist(), strict=True)):
        uses.setdefault(chosen, []).append(number)
        uses.setdefault(rejected, []).append(number)
    left = {row: len(numbers) for row, numbers in uses.items()}
    waiting: dict[int, Rollout] = {}
    for row, rollout in texts(lake, curated.index, curated.kept):
        waiting[row] = rollout
        for number in uses[row]:
            pair = table.iloc[number]
            chosen, rejected = int(pair["chosen"]), int(pair["rejected"])
            if chosen not in waiting or rejected not in waiting:
                continue
            yield (chosen, rejected), _pair(pair, waiting[chosen], waiting[rejected])
            for member in (chosen, rejected):
                left[member] -= 1
                if not left[member] and member != row:
                    del waiting[member]
        if not left[row]:
            del waiting[row]


def _pair(pair: Any, chosen: Rollout, rejected: Rollout) -> PreferencePair:
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
