"""Groups that preference pairs are made in, their statistics, and the reasons for which a whole group gives none."""

import math
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from trace_flywheel.curation.comparable import COMPARABLE, codes, finite_reward, scored
from trace_flywheel.curation.divergence import Refusal


class PairGroups(msgspec.Struct, frozen=True):
    """Each row's group, and by group what its scored members say (NaN where there are none)."""

    cell: np.ndarray
    size: np.ndarray
    mean: np.ndarray
    sigma: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray


class Candidates(NamedTuple):
    """Masks of the alive rows: by verdict, and those of them that may be taken as the chosen and rejected member."""

    passing: np.ndarray
    failing: np.ndarray
    chosen: np.ndarray
    rejected: np.ndarray


def pair_groups(frame: pd.DataFrame, members: np.ndarray) -> PairGroups:
    """Groups by (task, context, grader, version, scale); `members` masks the attempts that count in statistics."""
    cell = codes(frame, ["task_id", "context_hash", *COMPARABLE])
    n = int(cell.max()) + 1 if len(frame) else 0
    rows = np.flatnonzero(members & scored(frame))
    order = rows[np.argsort(cell[rows], kind="stable")]
    edges = np.searchsorted(cell[order], np.arange(n + 1)).tolist()
    values = finite_reward(frame)[order].tolist()
    mean, sigma, lowest, highest = (np.full(n, np.nan) for _ in range(4))
    for group in range(n):
        own = values[edges[group] : edges[group + 1]]
        if own:
            mean[group] = mu = math.fsum(own) / len(own)
            sigma[group] = math.sqrt(math.fsum((r - mu) ** 2 for r in own) / len(own))
            lowest[group], highest[group] = min(own), max(own)
    return PairGroups(cell, np.diff(edges), mean, sigma, lowest, highest)


def refused_groups(
    frame: pd.DataFrame,
    groups: PairGroups,
    alive: np.ndarray,
    candidates: Candidates,
    min_group: int,
) -> dict[int, Refusal]:
    """The groups with alive rows that give no pair, whatever their messages say."""
    cell, n = groups.cell, len(groups.size)
    context = codes(frame, ["task_id", "context_hash"])
    task = codes(frame, ["task_id", *COMPARABLE])
    first = np.zeros(n, dtype=np.int64)
    first[cell[::-1]] = np.arange(len(cell))[::-1]
    in_context = np.bincount(context[first], weights=groups.size, minlength=1).astype(np.int64)[context[first]]
    passing, failing, better, worse = (np.bincount(cell[mask], minlength=n) for mask in candidates)
    fit = (candidates.chosen, candidates.rejected)
    anywhere = [np.bincount(task[mask], minlength=len(frame) + 1)[task[first]] for mask in fit]
    contrast = (better > 0) & (worse > 0)
    reasons = ["mixed_graders", "prompt_mismatch", "no_contrast", "group_too_small", "zero_spread"]
    which = np.select(
        [
            (groups.size < min_group) & (in_context >= min_group),
            ~contrast & (anywhere[0] > 0) & (anywhere[1] > 0),
            ~contrast,
            groups.size < min_group,
            groups.highest == groups.lowest,
        ],
        range(5),
        default=5,
    )
    live = np.bincount(cell[alive], minlength=n) > 0
    refusals = {}
    for group in np.flatnonzero(live & (which < 5)).tolist():
        evidence: dict[str, Any] = {"scored": int(groups.size[group])}
        if reasons[which[group]] in {"mixed_graders", "group_too_small"}:
            evidence["min_group"] = min_group
        if reasons[which[group]] == "mixed_graders":
            evidence["scored_by_all_graders"] = int(in_context[group])
        if reasons[which[group]] in {"prompt_mismatch", "no_contrast"}:
            evidence |= {"passing": int(passing[group]), "failing": int(failing[group])}
            unfit = passing[group] + failing[group] - better[group] - worse[group]
            evidence["errored_or_truncated"] = int(unfit)
        if reasons[which[group]] == "prompt_mismatch":
            elsewhere = (int(anywhere[0][group] - better[group]), int(anywhere[1][group] - worse[group]))
            evidence["other_contexts"] = dict(zip(("passing", "failing"), elsewhere, strict=True))
        refusals[group] = Refusal(reasons[which[group]], evidence)
    return refusals
