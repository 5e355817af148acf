"""Which attempts withhold a group: a person who mends a run needs their names, not a count alone."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from trace_flywheel.curation.advantages import COLUMN
from trace_flywheel.curation.baselines import NEVER_CALLED, UNREADABLE, UNSCORED
from trace_flywheel.curation.comparable import scored
from trace_flywheel.records.fate import Drop

SHOWN = 3
"""Attempts that the evidence names; a whole run may have failed."""


def group_evidence(
    frame: pd.DataFrame,
    members: np.ndarray,
    groups: pd.DataFrame,
    rows: np.ndarray,
    unreadable: Sequence[Drop],
    by: Sequence[str],
) -> Iterator[dict[str, Any]]:
    """Evidence of `rows` (dropped for their group's reason): the group, how many attempts are at fault, the first.

    `groups` is the answer of `group_table`, `unreadable` what was lost to it, `by` the group's key.
    """
    faulty = {
        NEVER_CALLED: members & frame["never_called"].to_numpy(dtype=bool),
        UNSCORED: members & ~scored(frame),
    }
    named = {reason: _named(frame, groups, mask) for reason, mask in faulty.items()}
    columns = frame[[COLUMN.get(key, key) for key in by]]
    lost: dict[str, list[dict[str, Any]]] = {}
    for row in rows.tolist():
        group, reason = str(groups["group_id"].iat[row]), groups["reason"].iat[row]
        if reason == UNREADABLE and group not in lost:
            key = columns.iloc[row].to_dict()
            lost[group] = [
                {"run_id": d.run_id, "trace_id": d.trace_id, "path": d.path}
                for d in unreadable
                if d.task_id is not None and _may_be(d, key)
            ]
        found = lost[group] if reason == UNREADABLE else named.get(str(reason), {}).get(group, [])
        at_fault = {"at_fault": found[:SHOWN], "n_at_fault": len(found)} if found else {}
        yield {"group_id": group, **at_fault}


def _named(frame: pd.DataFrame, groups: pd.DataFrame, mask: np.ndarray) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in np.flatnonzero(mask).tolist():
        name = {"run_id": frame["run_id"].iat[row], "trace_id": frame["trace_id"].iat[row]}
        found.setdefault(str(groups["group_id"].iat[row]), []).append(name)
    return found


def _may_be(drop: Drop, key: dict[str, Any]) -> bool:
    """Whether all that is known of a lost attempt agrees with the group's key."""
    known = {name: getattr(drop, name) for name in key if name in ("task_id", "agent", "model", "job")}
    return "task_id" in known and all(value is None or value == key[name] for name, value in known.items())
