"""What became of the rows that no kept pair uses: one drop each, with what their candidates came to as evidence."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trace_flywheel.curation.decisions import drops
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
    used = set(kept["chosen"].tolist()) | set(kept["rejected"].tolist())
    left_out = _left_out(built, kept, below, losers.per_task)
    group_of = dict(zip(built["cell"].tolist(), built["group_id"].tolist(), strict=True))
    rows: dict[Stage, list[int]] = {Stage.PAIRS: [], Stage.CONVERTIBLE: []}
    evidence: dict[Stage, list[dict[str, Any]]] = {Stage.PAIRS: [], Stage.CONVERTIBLE: []}
    reasons: list[str] = []
    # Members of a group mostly end alike: what they share is one object, not one each.
    shared: dict[int, tuple[str, dict[str, Any]]] = {}
    cells, classes, unfit = cell.tolist(), losers.outcomes.of_row, losers.unfit.tolist()
    for row in np.flatnonzero(alive).tolist():
        if row in used:
            continue
        if (own := left_out.get(row)) is not None:
            reason, told = own.reason, {**own.evidence, "candidates": losers.outcomes.counts[classes[row]]}
        else:
            # A number, because a million tuples would be a million objects to look after.
            key = 2 * (cells[row] * len(losers.outcomes.counts) + classes[row]) + unfit[row]
            if key not in shared:
                shared[key] = _of_group(cells[row], classes[row], unfit[row], losers, group_of.get(cells[row]))
            reason, told = shared[key]
        stage = Stage.CONVERTIBLE if reason == "mixed_graders" else Stage.PAIRS
        rows[stage].append(row)
        evidence[stage].append(told)
        if stage is Stage.PAIRS:
            reasons.append(reason)
    mixed = drops(Stage.CONVERTIBLE, rows[Stage.CONVERTIBLE], "mixed_graders", evidence[Stage.CONVERTIBLE])
    refused = drops(Stage.PAIRS, rows[Stage.PAIRS], reasons, evidence[Stage.PAIRS])
    return pd.concat([mixed, refused], ignore_index=True)


def _of_group(cell: int, outcome: int, unfit: bool, losers: Losers, group_id: str | None) -> tuple[str, dict[str, Any]]:
    """Reason and evidence of a row that stands in no pair: its group's, and what its own candidates came to."""
    told: dict[str, Any] = {}
    if ended := losers.outcomes.counts[outcome]:
        told = {"candidates": ended}
    elif unfit and group_id is not None:
        told = {"errored_or_truncated": True}
    if (refusal := losers.refusals.get(cell)) is not None:
        return refusal.reason, {**refusal.evidence, **told}
    return "not_selected_for_pair", {"group_id": group_id, "per_task": losers.per_task, **told}


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
