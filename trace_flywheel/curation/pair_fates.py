"""What became of the rows that no kept pair uses: one drop each, with what their candidates came to as evidence."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trace_flywheel.curation.decisions import drops_of_kinds, no_drops
from trace_flywheel.curation.divergence import Refusal
from trace_flywheel.curation.pair_candidates import Outcomes
from trace_flywheel.records.fate import Stage


class Losers(NamedTuple):
    """What is known of rows and groups beside the pairs themselves."""

    refusals: dict[int, Refusal]
    """By group: why it gives no pair at all."""
    outcomes: Outcomes
    unfit: np.ndarray
    """Mask of the alive rows that ended with an error or were cut off."""
    per_task: int


def fates_of_pairs(
    alive: np.ndarray,
    cell: np.ndarray,
    built: pd.DataFrame,
    kept: pd.DataFrame,
    below: pd.DataFrame,
    losers: Losers,
) -> pd.DataFrame:
    """A drop for every alive row that no kept pair uses. `below`: the pairs that `keep` left out, best first."""
    used = np.union1d(kept["chosen"].to_numpy(np.int64), kept["rejected"].to_numpy(np.int64))
    left_out = _left_out(built, kept, below, losers.per_task)
    group_of = dict(zip(built["cell"].tolist(), built["group_id"].tolist(), strict=True))
    counts, classes, unfit = losers.outcomes.counts, losers.outcomes.of_row, losers.unfit
    rows = np.setdiff1d(np.flatnonzero(alive), used)
    # What is told of a row depends on its group and on what its candidates came to: few rows differ in it.
    alike = (cell[rows] * len(counts) + classes[rows]) * 2 + unfit[rows]
    _, first, kind = np.unique(alike, return_index=True, return_inverse=True)
    reasons, told = [], []
    for row in rows[first].tolist():
        of = int(cell[row])
        refusal = losers.refusals.get(of)
        reasons.append("not_selected_for_pair" if refusal is None else refusal.reason)
        told.append(_of_group(of, int(classes[row]), bool(unfit[row]), losers, group_of.get(of)))
    for at in np.flatnonzero(np.isin(rows, list(left_out))).tolist():
        row = int(rows[at])
        kind[at] = len(told)
        reasons.append(left_out[row].reason)
        told.append({**left_out[row].evidence, "candidates": counts[classes[row]]})
    mixed = np.array([reason == "mixed_graders" for reason in reasons], dtype=bool)[kind]
    answers = [
        drops_of_kinds(stage, rows[here], kind[here], reasons, told)
        for stage, here in ((Stage.CONVERTIBLE, mixed), (Stage.PAIRS, ~mixed))
        if here.any()
    ]
    return pd.concat(answers, ignore_index=True) if answers else no_drops()


def _of_group(cell: int, outcome: int, unfit: bool, losers: Losers, group_id: str | None) -> dict[str, Any]:
    """Evidence of a row that stands in no pair: its group's, and what its own candidates came to."""
    told: dict[str, Any] = {}
    if ended := losers.outcomes.counts[outcome]:
        told = {"candidates": ended}
    elif unfit and group_id is not None:
        told = {"errored_or_truncated": True}
    if (refusal := losers.refusals.get(cell)) is not None:
        return {**refusal.evidence, **told}
    return {"group_id": group_id, "per_task": losers.per_task, **told}


def _left_out(built: pd.DataFrame, kept: pd.DataFrame, below: pd.DataFrame, per_task: int) -> dict[int, Refusal]:
    """By row: why the pair that it stands in was not kept, though its group offered it."""
    left: dict[int, Refusal] = {}
    names = ["chosen", "rejected", "group_id", "delta"]
    for chosen, rejected, group, delta in built.loc[~built.index.isin(kept.index), names].itertuples(index=False):
        evidence = {"group_id": group, "delta": delta, "per_task": per_task}
        left[chosen] = left[rejected] = Refusal("not_selected_for_pair", evidence)
    for place, (chosen, rejected, _, delta) in enumerate(below[names].itertuples(index=False), start=1):
        evidence = {"delta": delta, "rank": len(kept) + place, "keep": len(kept)}
        left[chosen] = left[rejected] = Refusal("below_delta", evidence)
    return left
