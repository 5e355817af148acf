"""Stage `split`: which task goes to train, eval or held_out, and which rows stand too near those of another split.

The split of a task is a salted hash of its family (its id, unless `splits.family` finds a shorter name in it) against
the shares: all rows of a family stay together, and no growth of the data moves one. Near-duplicate prompts (the
threshold of duplicates, verified exactly) form components, and no component has rows in two splits: where it has one
in held_out the others leave, else where it has one in eval those of train do. They would teach what is asked there, if
need be through a chain of neighbours, each a little different. Rows leave and none moves, so that a task stays where
its hash puts it.
"""

import re

import numpy as np
import pandas as pd

from trace_flywheel.curation.decisions import drops
from trace_flywheel.curation.dedup import near_prompts
from trace_flywheel.curation.near_kernel import NONE
from trace_flywheel.curation.sketch import Spans
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.fate import Stage
from trace_flywheel.records.rows import Split
from trace_flywheel.settings import Splits

GUARDED: tuple[Split, ...] = ("held_out", "eval")
"""Splits that no near-duplicate of theirs may be asked outside of; the last judge goes first."""


def split_of(task_id: str, splits: Splits, seed: int) -> Split:
    """The split of a task: the same in every dataset and version with this seed and these shares."""
    found = re.search(splits.family, task_id) if splits.family else None
    family = found[1] if found and found[1] else task_id
    point = int(content_id(["split", seed, family])[:13], 16) / 16**13
    if point < splits.eval:
        return "eval"
    return "held_out" if point < splits.eval + splits.held_out else "train"


def crossing(
    frame: pd.DataFrame, alive: np.ndarray, prompt: Spans, splits: Splits, seed: int, threshold: float
) -> pd.DataFrame:
    """Drops of alive rows in a component that an alive row of a split before theirs (`GUARDED`) is in.

    `prompt`: the user turns of the alive rows. The reason names the split that the row would give away,
    `crosses_held_out` or `crosses_eval`. Evidence names the neighbour that the row is near and, where that leaves too,
    the row of that split at which the chain ends.
    """
    of_task = {task: split_of(task, splits, seed) for task in frame["task_id"].unique().tolist()}
    rows = np.flatnonzero(alive)
    split = frame["task_id"].iloc[rows].map(of_task).to_numpy(dtype=object)
    near, share, end = np.full(len(rows), NONE), np.zeros(len(rows)), np.arange(len(rows))
    left = split != GUARDED[0]
    for guarded in GUARDED:
        reached = (split == guarded) & (near == NONE)
        left &= ~reached
        while reached.any() and left.any():
            match, shares = near_prompts(left, reached, prompt, threshold)
            reached = match != NONE
            near[reached], share[reached] = match[reached], shares[reached]
            end[reached] = end[match[reached]]
            left &= ~reached

    def named(at: int) -> dict[str, str]:
        run_id, trace_id, task_id = (str(frame[name].iat[rows[at]]) for name in ("run_id", "trace_id", "task_id"))
        return {"run_id": run_id, "trace_id": trace_id, "task_id": task_id, "split": of_task[task_id]}

    crosses = np.flatnonzero(near != NONE)
    evidence = []
    for at in crosses.tolist():
        chain = {"touches": named(end[at])} if end[at] != near[at] else {}
        jaccard = round(float(share[at]), 4)
        evidence.append({"near": named(near[at]), **chain, "jaccard_prompt": jaccard, "threshold": threshold})
    reasons = [f"crosses_{split[end[at]]}" for at in crosses.tolist()]
    return drops(Stage.SPLIT, rows[crosses], reasons, evidence)
