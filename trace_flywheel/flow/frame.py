"""The index of all runs in memory: what the global decisions read. No text.

The frame holds one row per redacted rollout, sorted by (run_id, trace_id, part, position), so that a row's number is a
name for it that no input order changes. Lost rollouts (dropped before the index) are kept beside it: they have a fate
too, and their groups must know.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from trace_flywheel.curation.regrade import join_scores, join_verdicts
from trace_flywheel.flow.agreement import agreeing, unusable
from trace_flywheel.flow.columns import Columns
from trace_flywheel.flow.gathered import index_rows
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.lake.index import DECIDING
from trace_flywheel.lake.sidecar import LakeError, Sidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.fate import Drop

ALIKE = frozenset({"source_format", "source_path", "roles"})
"""Columns in which many rollouts say the same, and which are looked at row by row: their texts stand there once."""


@dataclass(frozen=True)
class Index:
    """All runs: scalars in `frame`, and where the long columns of its rows lie. `runs` are the index sidecars that took
    part, `stale` the runs whose text and index do not agree."""

    frame: pd.DataFrame
    columns: Columns
    lost: tuple[Drop, ...]
    runs: tuple[Sidecar, ...]
    stale: tuple[str, ...]
    joined: dict[str, Any] = field(default_factory=dict)
    """What joining grades from files did: counts for people."""
    warnings: tuple[str, ...] = ()

    def only(self, mask: np.ndarray) -> "Index":
        """The rows under a mask; the lost ones stay."""
        rows = np.flatnonzero(mask)
        return Index(
            self.frame.iloc[rows].reset_index(drop=True),
            self.columns.only(rows),
            self.lost,
            self.runs,
            self.stale,
            self.joined,
            self.warnings,
        )


def load_index(lake: Lake) -> Index:
    """The index of every run whose partitions agree; the others are named in `stale` and take no part."""
    runs, stale = agreeing(lake)
    lost: list[Drop] = []
    for sidecar in runs:
        try:
            lost += lake.drops(sidecar)
        except FileNotFoundError:
            raise LakeError(f"run {sidecar.run_id} changed while the index was read; run it again") from None
    frame = _sorted(index_rows(lake, runs))  # nobody else holds the table, so that its columns go as the frame's come
    return Index(frame, Columns.of(lake, runs, frame), tuple(lost), runs, stale)


def _sorted(table: pa.Table) -> pd.DataFrame:
    """The frame, made column by column: of a million rollouts there is no second copy."""
    keys = [(name, "ascending") for name in ("run_id", "trace_id", "part", "position")]
    order = pc.sort_indices(table, sort_keys=keys)
    table, columns = table.select(DECIDING), {}
    missing = pa.table({"texts": pa.nulls(len(table), pa.large_string())}).to_pandas()["texts"]
    for name in DECIDING:
        if pa.types.is_string(table[name].type) and table[name].null_count == len(table):
            columns[name] = missing.copy()  # a column of its own over the same values, which never change
        else:
            taken = table[name].take(order).combine_chunks()
            taken = taken.dictionary_encode() if name in ALIKE else taken
            columns[name] = pa.table({name: taken}).to_pandas()[name]
            del taken
        table = table.drop_columns([name])
        pa.default_memory_pool().release_unused()  # freed pages would stay this process's
    return pd.DataFrame(columns, copy=False)


def graded(index: Index, inputs: SideInputs) -> Index:
    """The index with the verdicts and judge scores of files joined; what found no rollout is warned of."""
    verdicts = join_verdicts(index.frame, inputs.verdicts)
    scores = join_scores(verdicts.frame, inputs.judge_scores)
    joined: dict[str, Any] = {}
    warnings = []
    for name, given, done in (("verdicts", inputs.verdicts, verdicts), ("judge_scores", inputs.judge_scores, scores)):
        if not given:
            continue
        joined[name] = {"lines": len(given), "rollouts": done.matched, "unmatched": len(done.unmatched)}
        if done.unmatched:
            warnings.append(
                f"{len(done.unmatched)} {name} fit no rollout, or several; the first is {done.unmatched[0]}."
            )
    if inputs.judge_scores:
        joined["judge_scores"]["unjudged"] = int(scores.frame["judge_score"].isna().sum())
    corrected = set(index.frame.loc[index.frame["has_correction"].to_numpy(dtype=bool), "trace_id"])
    lost = sorted({c.trace_id for c in inputs.corrections} - corrected)
    replaced = inputs.superseded_corrections
    if lost or replaced:
        joined["corrections"] = {"lines": len(inputs.corrections), "unmatched": len(lost), "superseded": len(replaced)}
    if replaced:
        warnings.append(
            f"{len(replaced)} corrections are replaced by a later one of their trace; the first is of trace "
            f"{replaced[0].trace_id!r}."
        )
    if lost:
        warnings.append(f"{len(lost)} corrections fit no rollout; the first is of trace {lost[0]!r}.")
    warnings += unusable(inputs)
    return replace(index, frame=scores.frame, joined=joined, warnings=tuple(warnings))
