"""Stage `split`: which task goes to train, eval or held_out, and which train rows stand too near the others.

A task's split is a salted hash of its id against the shares: all rows of a task stay together, and no growth of the
data moves a task. A train row whose prompt is a near-duplicate of the prompt of an eval or held-out row (the threshold
of duplicates, verified exactly) would teach what is asked there: it leaves. Rows are compared with those outside train
only, never in chains, so a template cannot pull a whole set out.
"""

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


def split_of(task_id: str, splits: Splits, seed: int) -> Split:
    """The split of a task: the same in every dataset and version with this seed and these shares."""
    point = int(content_id(["split", seed, task_id])[:13], 16) / 16**13
    if point < splits.eval:
        return "eval"
    return "held_out" if point < splits.eval + splits.held_out else "train"


def crossing(
    frame: pd.DataFrame, alive: np.ndarray, prompt: Spans, splits: Splits, seed: int, threshold: float
) -> pd.DataFrame:
    """Drops of alive train rows near an alive row of another split. `prompt`: the user turns of the alive rows."""
    of_task = {task: split_of(task, splits, seed) for task in frame["task_id"].unique().tolist()}
    rows = np.flatnonzero(alive)
    train = (frame["task_id"].iloc[rows].map(of_task) == "train").to_numpy(dtype=bool)
    match, shares = near_prompts(train, ~train, prompt, threshold)
    crosses = match != NONE
    evidence = []
    for other, share in zip(rows[match[crosses]].tolist(), shares[crosses].tolist(), strict=True):
        run_id, trace_id, task_id = (str(frame[name].iat[other]) for name in ("run_id", "trace_id", "task_id"))
        named = {"run_id": run_id, "trace_id": trace_id, "task_id": task_id, "split": of_task[task_id]}
        evidence.append({"near": named, "jaccard_prompt": round(share, 4), "threshold": threshold})
    return drops(Stage.SPLIT, rows[crosses], "crosses_eval", evidence)
