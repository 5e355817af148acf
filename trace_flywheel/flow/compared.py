"""Rows compared with each other in a process of the crew: it reads their sketches and shingles, 5 kB a row, and loads
the loop that compares them, with 45 MB of llvmlite. What decides over all rows holds neither."""

from typing import Any, NamedTuple

import numpy as np

from trace_flywheel.curation import dedup
from trace_flywheel.flow.columns import Columns

ROW_SECONDS = 2e-4
"""To read what is compared of a row, and to compare it."""


class Compared(NamedTuple):
    """Rows to be compared: where their texts lie, and of each its rollout and rank (smaller wins)."""

    columns: Columns
    owner: np.ndarray
    rank: np.ndarray
    threshold: float


def compared(_: Any, rows: Compared) -> tuple[np.ndarray, np.ndarray]:
    """For each row the best kept row that it is near, and the Jaccards of both texts (`dedup.matches`)."""
    prompt, supervised = rows.columns.spans(np.ones(len(rows.owner), dtype=bool))
    return dedup.matches(rows.owner, rows.rank, prompt, supervised, rows.threshold)
