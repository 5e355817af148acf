"""Stage `convertible`, before all else: what was withdrawn is out as if it had never been, statistics included."""

from collections.abc import Sequence
from heapq import merge

import numpy as np
import pandas as pd

from trace_flywheel.curation.decisions import drops
from trace_flywheel.records.fate import Stage
from trace_flywheel.records.grading import Withdrawal


class Covering:
    """Entries, asked about many rollouts: those that name a trace are looked up by it."""

    def __init__(self, entries: Sequence[Withdrawal]) -> None:
        self._entries = entries
        self._by_trace: dict[str | None, list[int]] = {}
        for at, entry in enumerate(entries):
            self._by_trace.setdefault(entry.trace, []).append(at)

    def first(self, run_id: str, trace_id: str, grader: str | None, version: str | None) -> Withdrawal | None:
        """The first entry that covers a rollout, graded so."""
        candidates = merge(self._by_trace.get(None, ()), self._by_trace.get(trace_id, ()))
        found = (self._entries[at] for at in candidates)
        return next((entry for entry in found if entry.covers(run_id, trace_id, grader, version)), None)


def withdrawn(frame: pd.DataFrame, entries: Sequence[Withdrawal]) -> pd.DataFrame:
    """Drops of the rollouts that an entry covers; the first that does is the evidence."""
    if not entries:
        return drops(Stage.CONVERTIBLE, [], "withdrawn", [])
    names = frame[["run_id", "trace_id", "grader", "grader_version"]].astype(object)
    names = names.where(names.notna(), None)
    covering = Covering(entries)
    found = [covering.first(*name) for name in names.itertuples(index=False, name=None)]
    rows = np.flatnonzero([entry is not None for entry in found])
    evidence = [{"withdrawn": entry.what, "reason": entry.reason} for entry in found if entry is not None]
    return drops(Stage.CONVERTIBLE, rows, "withdrawn", evidence)
