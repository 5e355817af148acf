"""What became of every rollout that entered a dataset, and which of them wait to be graded."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa

from trace_flywheel.flow.funnel import Curated
from trace_flywheel.flow.uses import Uses
from trace_flywheel.lake.columns import column, table
from trace_flywheel.lake.ledger import FATES_SCHEMA
from trace_flywheel.records.canonical import canonical_json
from trace_flywheel.records.fate import Drop

PIECE = 50_000
"""Fates whose texts are put in their order at a time."""


def fates_of(curated: Curated, uses: Uses, late: dict[int, Drop]) -> pa.Table:
    """The fate of every rollout that entered, in the order of the frame, then of those that were lost before it.

    `uses`: the published rows. `late`: kept rows whose last row publication dropped.
    The grade that a later verdict took the place of is evidence, kept or dropped.
    Raises `AssertionError` when a rollout has no fate or two.
    """
    frame, drops = curated.index.frame, curated.drops
    entered = len(frame)
    kept = np.zeros(entered, dtype=bool)
    kept[curated.kept] = True
    dropped = drops["row"].to_numpy(dtype=np.int64)
    if kept[dropped].any():
        raise AssertionError(f"{frame['trace_id'].iat[int(dropped[kept[dropped]][0])]} is kept and dropped")
    used = uses.counts(entered) > 0
    gone = [(row, late[row]) for row in curated.kept[~used[curated.kept]].tolist()]
    kept[[row for row, _ in gone]] = False
    # Where each rollout's drop stands: among those of the stages, then among the late ones.
    place = np.full(entered, -1, dtype=np.int64)
    place[dropped] = np.arange(len(drops))
    place[[row for row, _ in gone]] = len(drops) + np.arange(len(gone))
    if (
        not (kept ^ (place >= 0)).all()
        or not (kept == used).all()
        or len(drops) + len(gone) + int(kept.sum()) != entered
    ):
        raise AssertionError("a rollout that entered is neither kept nor dropped")
    found = {name: _texts(frame[name]).cast(pa.string()) for name in ("run_id", "trace_id", "task_id")}
    for name in ("stage", "reason", "evidence"):
        texts = _texts(drops[name])
        of_late = column([_dropped(drop)[name] for _, drop in gone], texts.type)
        found[name] = _at(place, pa.chunked_array([*texts.chunks, of_late]))
    found["evidence"] = _with_earlier_grades(found["evidence"], frame["superseded"])
    found |= {"kept": pa.array(kept), "row_ids": uses.row_ids(entered)}
    fates = pa.table([found[name] for name in FATES_SCHEMA.names], schema=FATES_SCHEMA)
    return pa.concat_tables([fates, table([_lost(drop) for drop in curated.index.lost], FATES_SCHEMA)])


def _texts(values: pd.Series) -> pa.ChunkedArray:
    """A column of a frame, whatever it is held as."""
    array = pa.array(values)
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _at(place: np.ndarray, texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """The text at each place, none where it is negative. Piece by piece: evidence is long."""
    whole, missing = texts.combine_chunks(), place < 0
    pieces = (slice(at, at + PIECE) for at in range(0, max(len(place), 1), PIECE))
    return pa.chunked_array([whole.take(pa.array(place[p], mask=missing[p])).cast(pa.string()) for p in pieces])


def _with_earlier_grades(evidence: pa.ChunkedArray, superseded: pd.Series) -> pa.ChunkedArray:
    rows = np.flatnonzero(superseded.notna().to_numpy(dtype=bool)).tolist()
    if not rows:
        return evidence
    texts = evidence.to_pylist()
    for row in rows:
        earlier = {"superseded": orjson.loads(str(superseded.iat[row]))}
        texts[row] = canonical_json({**orjson.loads(texts[row] or "{}"), **earlier}).decode()
    return pa.chunked_array([column(texts, pa.string())])


def _dropped(drop: Drop, more: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    evidence = canonical_json({**drop.evidence, **more}).decode()
    return {"kept": False, "row_ids": [], "stage": drop.stage.value, "reason": drop.reason, "evidence": evidence}


def _lost(drop: Drop) -> dict[str, Any]:
    name = {"run_id": drop.run_id, "trace_id": drop.trace_id, "task_id": drop.task_id}
    return name | _dropped(drop, {"path": drop.path} if drop.path else {})


def needs_grading(curated: Curated) -> list[dict[str, Any]]:
    """What lacks a verdict or a reward, to be graded and read again: run, trace, reason, path; sorted, each once."""
    wanted = curated.drops["reason"].isin(["no_verdict", "no_reward", "non_finite_reward"])
    frame = curated.index.frame
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row, reason in curated.drops.loc[wanted, ["row", "reason"]].sort_values("row").itertuples(index=False):
        run, trace, path = (str(frame[n].iat[row]) for n in ("run_id", "trace_id", "source_path"))
        found.setdefault((run, trace), {"run_id": run, "trace_id": trace, "reason": reason, "path": path})
    return [found[key] for key in sorted(found)]
