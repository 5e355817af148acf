"""What became of the rows that no kept pair uses: one drop each, with what their candidates came to as evidence."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trace_flywheel.curation.decisions import drops
from trace_flywheel.curation.divergence import Refusal
from trace_flywheel.records.fate import Stage


class Losers(NamedTuple):
    """What is known of rows and groups beside the pairs themselves."""

    refusals: dict[int, Refusal]
    """By group: why it gives no pair at all."""
    outcomes: dict[int, dict[str, int]]
    """By row: how many of its candidates ended in which outcome."""
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
    left_out = _left_out(built, below, len(kept), losers.per_task)
    group_of = dict(zip(built["cell"].tolist(), built["group_id"].tolist(), strict=True))
    rows: dict[Stage, list[int]] = {Stage.PAIRS: [], Stage.CONVERTIBLE: []}
    evidence: dict[Stage, list[dict[str, Any]]] = {Stage.PAIRS: [], Stage.CONVERTIBLE: []}
    reasons: list[str] = []
    for row in np.flatnonzero(alive).tolist():
        if row in used:
            continue
        why = losers.refusals.get(cell[row]) or left_out.get(row)
        if why is None:
            why = Refusal("not_selected_for_pair", {"group_id": group_of[cell[row]]})
        told: dict[str, Any] = {}
        if row in losers.outcomes:
            told = {"candidates": losers.outcomes[row]}
        elif losers.unfit[row] and cell[row] in group_of:
            told = {"errored_or_truncated": True}
        stage = Stage.CONVERTIBLE if why.reason == "mixed_graders" else Stage.PAIRS
        rows[stage].append(row)
        evidence[stage].append({**why.evidence, **told})
        if stage is Stage.PAIRS:
            reasons.append(why.reason)
    mixed = drops(Stage.CONVERTIBLE, rows[Stage.CONVERTIBLE], "mixed_graders", evidence[Stage.CONVERTIBLE])
    refused = drops(Stage.PAIRS, rows[Stage.PAIRS], reasons, evidence[Stage.PAIRS])
    return pd.concat([mixed, refused], ignore_index=True)


def _left_out(built: pd.DataFrame, below: pd.DataFrame, keep: int, per_task: int) -> dict[int, Refusal]:
    """By row: why the pair that it stands in was not kept. Pairs that were kept are in it too, and not asked for."""
    left: dict[int, Refusal] = {}
    names = ["chosen", "rejected", "group_id", "delta"]
    for chosen, rejected, group, delta in built[names].itertuples(index=False):
        evidence = {"group_id": group, "delta": delta, "per_task": per_task}
        left[chosen] = left[rejected] = Refusal("not_selected_for_pair", evidence)
    for place, (chosen, rejected, _, delta) in enumerate(below[names].itertuples(index=False), start=1):
        left[chosen] = left[rejected] = Refusal("below_delta", {"delta": delta, "rank": keep + place, "keep": keep})
    return left
