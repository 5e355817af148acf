"""Stage `convertible`, before all else: what was withdrawn is out as if it had never been, statistics included."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from trace_flywheel.curation.decisions import drops
from trace_flywheel.records.fate import Stage
from trace_flywheel.records.grading import Withdrawal


def withdrawn(frame: pd.DataFrame, entries: Sequence[Withdrawal]) -> pd.DataFrame:
    """Drops of the rollouts that an entry covers; the first that does is the evidence."""
    if not entries:
        return drops(Stage.CONVERTIBLE, [], "withdrawn", [])
    names = frame[["run_id", "trace_id", "grader", "grader_version"]].astype(object)
    names = names.where(names.notna(), None)
    found = [
        next((entry for entry in entries if entry.covers(*name)), None)
        for name in names.itertuples(index=False, name=None)
    ]
    rows = np.flatnonzero([entry is not None for entry in found])
    evidence = [{"withdrawn": entry.what, "reason": entry.reason} for entry in found if entry is not None]
    return drops(Stage.CONVERTIBLE, rows, "withdrawn", evidence)
