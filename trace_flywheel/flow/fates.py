"""What became of every rollout that entered a dataset, and which of them wait to be graded."""

from typing import Any

import numpy as np
import orjson

from trace_flywheel.curation.decisions import COLUMNS
from trace_flywheel.flow.funnel import Curated
from trace_flywheel.records.canonical import canonical_json
from trace_flywheel.records.fate import Drop


def fates_of(curated: Curated, row_ids: dict[int, list[str]], late: dict[int, Drop]) -> list[dict[str, Any]]:
    """The fate of every rollout that entered.

    `row_ids`: by frame row the published rows that use it. `late`: kept rows whose last row publication dropped.
    The grade that a later verdict took the place of is evidence, kept or dropped.
    Raises `AssertionError` when a rollout has no fate or two.
    """
    frame = curated.index.frame
    names = zip(frame["run_id"].tolist(), frame["trace_id"].tolist(), frame["task_id"].tolist(), strict=True)
    table: list[dict[str, Any]] = [
        {"run_id": run, "trace_id": trace, "task_id": task, "kept": None} for run, trace, task in names
    ]
    for row, stage, reason, evidence in curated.drops[list(COLUMNS)].itertuples(index=False):
        table[row] |= _dropped(str(stage), reason, evidence)
    for row in curated.kept.tolist():
        if table[row]["kept"] is not None:
            raise AssertionError(f"{table[row]['trace_id']} is kept and dropped")
        if ids := row_ids.get(row):
            table[row] |= {"kept": True, "row_ids": sorted(ids)}
        else:
            drop = late[row]
            table[row] |= _dropped(str(drop.stage), drop.reason, canonical_json(drop.evidence).decode())
    for row in np.flatnonzero(frame["superseded"].notna().to_numpy(dtype=bool)).tolist():
        earlier = {"superseded": orjson.loads(str(frame["superseded"].iat[row]))}
        evidence = orjson.loads(table[row].get("evidence") or "{}")
        table[row]["evidence"] = canonical_json({**evidence, **earlier}).decode()
    if any(fate["kept"] is None for fate in table):
        raise AssertionError("a rollout that entered is neither kept nor dropped")
    return table + [_lost(drop) for drop in curated.index.lost]


def _dropped(stage: str, reason: str, evidence: str) -> dict[str, Any]:
    return {"kept": False, "row_ids": [], "stage": stage, "reason": reason, "evidence": evidence}


def _lost(drop: Drop) -> dict[str, Any]:
    evidence = dict(drop.evidence) | ({"path": drop.path} if drop.path else {})
    name = {"run_id": drop.run_id, "trace_id": drop.trace_id, "task_id": drop.task_id}
    return name | _dropped(drop.stage.value, drop.reason, canonical_json(evidence).decode())


def needs_grading(curated: Curated) -> list[dict[str, Any]]:
    """What lacks a verdict or a reward, to be graded and read again: run, trace, reason, path; sorted, each once."""
    wanted = curated.drops["reason"].isin(["no_verdict", "no_reward", "non_finite_reward"])
    frame = curated.index.frame
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row, reason in curated.drops.loc[wanted, ["row", "reason"]].itertuples(index=False):
        run, trace, path = (str(frame[n].iat[row]) for n in ("run_id", "trace_id", "source_path"))
        found.setdefault((run, trace), {"run_id": run, "trace_id": trace, "reason": reason, "path": path})
    return [found[key] for key in sorted(found)]
