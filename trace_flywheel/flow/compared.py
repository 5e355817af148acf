"""Rows compared with each other in a process of its own: it reads their sketches and shingles, 5 kB a row, and loads
the loop that compares them, with 45 MB of llvmlite, and ends with both. What decides over all rows holds neither."""

from typing import Any, NamedTuple

import numpy as np

from trace_flywheel.curation import dedup
from trace_flywheel.flow.columns import Columns
from trace_flywheel.flow.workers import Crash, run_alone
from trace_flywheel.records.errors import FlywheelError

MANY = 2_000
"""Rows from which on that pays: the process takes a second for its imports."""


class Compared(NamedTuple):
    """Rows to be compared: where their texts lie, and of each its rollout and rank (smaller wins)."""

    columns: Columns
    owner: np.ndarray
    rank: np.ndarray
    threshold: float


def compared_apart(rows: Compared) -> tuple[np.ndarray, np.ndarray]:
    """For each row the best kept row that it is near, and the Jaccards of both texts (`dedup.matches`). Raises
    `FlywheelError` where the process died or a run changed meanwhile."""
    found = run_alone(_compared, None, rows)
    if isinstance(found, Crash):
        raise FlywheelError(found.reason)
    return found


def _compared(_: Any, rows: Compared) -> tuple[np.ndarray, np.ndarray]:
    prompt, supervised = rows.columns.spans(np.ones(len(rows.owner), dtype=bool))
    return dedup.matches(rows.owner, rows.rank, prompt, supervised, rows.threshold)
