"""Stage `same_rollout`: an attempt counts once, wherever it was seen; an attempt that was retried does not count.

Identity is `attempt_hash` (session id, timestamps and content, or the address where a source records neither), so a
copied folder or a second export is found and two temperature-0 twins stay two. Which copy stays never depends on its
content: the first by (run_id, trace_id), copies whose own run id contradicts their folder last.

A source without session and time cannot tell a renamed folder from a second attempt by its rollouts alone. But where
the folder of a run is gone and another run holds the same trace id with the same content, the folder was moved.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd

from trace_flywheel.curation.comparable import codes
from trace_flywheel.curation.convertible import run_id_mismatch
from trace_flywheel.curation.decisions import drops, no_drops
from trace_flywheel.records.fate import Stage


def conflicting_ids(frame: pd.DataFrame) -> pd.DataFrame:
    """Drops of stage `read`: rollouts of one run that share a trace id and differ in content or grade. All of them go.

    Their groups lack a member that nobody can name, so pass them to `group_table` as lost.
    """
    address = codes(frame, ["run_id", "trace_id"])
    contents = pd.Series(codes(frame, ["content_hash", "verdict", "reward"])).groupby(address).nunique()
    rows = np.flatnonzero(contents.reindex(address).to_numpy() > 1)
    paths = frame["source_path"]
    evidence = [{"trace_id": frame["trace_id"].iat[r], "path": paths.iat[r]} for r in rows.tolist()]
    return drops(Stage.READ, rows, "conflicting_trace_id", evidence)


def moved(frame: pd.DataFrame, alive: np.ndarray, gone: Collection[str]) -> pd.DataFrame:
    """Drops `same_rollout` of alive rows of runs that are gone and that stand again in one that is there."""
    left_behind = frame["run_id"].isin(list(gone)).to_numpy(dtype=bool)
    if not left_behind.any():
        return no_drops()
    same = codes(frame, ["trace_id", "task_id", "content_hash"])
    there = np.flatnonzero(alive & ~left_behind)
    kept = dict(zip(same[there[::-1]].tolist(), there[::-1].tolist(), strict=True))
    rows = [row for row in np.flatnonzero(alive & left_behind).tolist() if same[row] in kept]
    run, trace = frame["run_id"], frame["trace_id"]
    evidence: list[dict[str, Any]] = [
        {"kept_run_id": run.iat[kept[same[r]]], "kept_trace_id": trace.iat[kept[same[r]]], "gone": True} for r in rows
    ]
    return drops(Stage.SAME_ROLLOUT, rows, "same_rollout", evidence)


def same_rollout(frame: pd.DataFrame, alive: np.ndarray) -> pd.DataFrame:
    """Drops `retried` and, of each set of copies of one attempt, all but one as `same_rollout` (which names it)."""
    retried = np.flatnonzero(alive & frame["retried"].to_numpy(dtype=bool))
    live = np.flatnonzero(alive & ~frame["retried"].to_numpy(dtype=bool))
    attempt = codes(frame[["attempt_hash"]].iloc[live], ["attempt_hash"])
    order = np.lexsort((live, run_id_mismatch(frame)[live], attempt))
    first = np.ones(len(order), dtype=bool)
    first[1:] = attempt[order][1:] != attempt[order][:-1]
    winner = np.zeros(len(order), dtype=np.int64)
    winner[attempt[order][first]] = live[order][first]
    copies = np.sort(live[order][~first])
    kept = np.zeros(len(frame), dtype=np.int64)
    kept[live] = winner[attempt]
    run, trace = frame["run_id"], frame["trace_id"]
    evidence: list[dict[str, Any]] = [{} for _ in retried] + [
        {"kept_run_id": run.iat[kept[r]], "kept_trace_id": trace.iat[kept[r]]} for r in copies.tolist()
    ]
    reasons = ["retried"] * len(retried) + ["same_rollout"] * len(copies)
    return drops(Stage.SAME_ROLLOUT, np.concatenate([retried, copies]), reasons, evidence)
