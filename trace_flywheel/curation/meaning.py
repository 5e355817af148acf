"""Duplicates by meaning: rows of one task whose prompt and supervised text both say nearly the same in other words.

An optional step after near-duplicates (`dedup.embedding_threshold`). Tasks are the blocks: rows of different tasks are
never compared. A row is compared with the rows of its task that are kept, best first, by the exact cosine of both
texts; so none stands for another that is dropped itself.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from trace_flywheel.curation.decisions import drops
from trace_flywheel.curation.embedding import cosine
from trace_flywheel.records.fate import Stage

Vectors = Callable[[np.ndarray], list[tuple[np.ndarray, np.ndarray]]]
"""Of rows of the frame: the unit vectors of prompt and supervised text."""


def same_meaning(
    frame: pd.DataFrame, alive: np.ndarray, rank: np.ndarray, vectors: Vectors, threshold: float, model: str
) -> pd.DataFrame:
    """Drops of alive rows that mean what a better-ranked kept row of their task means. `rank`: smaller wins.

    Only rows that share their task with another are encoded. `model` is the fingerprint that evidence names.
    """
    rows = np.flatnonzero(alive)
    rows = rows[np.argsort(rank[rows], kind="stable")]
    tasks = frame["task_id"].iloc[rows]
    rows = rows[tasks.duplicated(keep=False).to_numpy(dtype=bool)]
    kept: dict[str, list[tuple[int, tuple[np.ndarray, np.ndarray]]]] = {}
    lost, evidence = [], []
    for row, mine in zip(rows.tolist(), vectors(rows), strict=True):
        block = kept.setdefault(str(frame["task_id"].iat[row]), [])
        for other, theirs in block:
            prompt, supervised = cosine(mine[0], theirs[0]), cosine(mine[1], theirs[1])
            if min(prompt, supervised) >= threshold:
                address = {"run_id": str(frame["run_id"].iat[other]), "trace_id": str(frame["trace_id"].iat[other])}
                scores = {"cosine_prompt": prompt, "cosine_supervised": supervised}
                evidence.append({"kept": address, **scores, "threshold": threshold, "model": model})
                lost.append(row)
                break
        else:
            block.append((row, mine))
    found = drops(Stage.NEAR_DUPLICATE, lost, "same_meaning", evidence)
    return found.sort_values("row", ignore_index=True)
