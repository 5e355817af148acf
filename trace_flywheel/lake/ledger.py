"""The ledger: what became of every rollout in every dataset, and the sums that must add up.

A fate is one rollout in one dataset: kept with its rows, or dropped at one stage for one reason with evidence. The
fates of a version are its `fates.parquet`, and part of what names it.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import orjson
import pyarrow as pa

from trace_flywheel.lake.columns import table
from trace_flywheel.records.fate import Stage

FATES_SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string()),
        pa.field("trace_id", pa.string()),
        pa.field("task_id", pa.string()),
        pa.field("kept", pa.bool_()),
        pa.field("row_ids", pa.list_(pa.string())),
        pa.field("stage", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("evidence", pa.string()),
    ]
)
BATCH = 1_000
"""Fates that stand as Python's objects at a time."""


class Step(msgspec.Struct, frozen=True):
    """One stage of the funnel. `entered == kept + sum(dropped)`."""

    stage: str
    entered: int
    kept: int
    dropped: dict[str, int]


class Ledger(msgspec.Struct, frozen=True):
    """The sums of a dataset's fates. `entered == kept + sum(dropped)`, or the fates hold a bug."""

    entered: int
    kept: int
    dropped: dict[str, dict[str, int]]

    def as_json(self) -> dict[str, Any]:
        """The shape that `flywheel refresh --json` and `flywheel ledger --json` share."""
        return {"in": self.entered, "kept": self.kept, "dropped": self.dropped}

    def funnel(self, order: Sequence[Stage] = tuple(Stage)) -> tuple[Step, ...]:
        """Stage after stage in the order of decisions; stages that dropped nothing are left out."""
        steps, left = [], self.entered
        for stage in order:
            reasons = self.dropped.get(stage.value, {})
            if reasons:
                steps.append(Step(stage.value, left, left - sum(reasons.values()), reasons))
                left = steps[-1].kept
        return tuple(steps)


def ledger_of(fates: pa.Table) -> Ledger:
    """Counts of a fates table. Raises `AssertionError` when a fate is neither kept nor dropped with a reason."""
    import pyarrow.compute as pc  # a thousand functions, made when it is imported; sums need none

    kept = pc.sum(fates["kept"]).as_py() or 0
    dropped: dict[str, dict[str, int]] = {}
    lost = (
        fates.select(["stage", "reason"])
        .filter(pc.invert(fates["kept"]))
        .group_by(["stage", "reason"])
        .aggregate([([], "count_all")])
    )
    for row in sorted(lost.to_pylist(), key=lambda r: (str(r["stage"]), str(r["reason"]))):
        if row["stage"] is None or row["reason"] is None:
            raise AssertionError(f"{row['count_all']} fates are neither kept nor dropped for a reason")
        dropped.setdefault(row["stage"], {})[row["reason"]] = row["count_all"]
    ledger = Ledger(fates.num_rows, kept, dropped)
    if ledger.entered != kept + sum(n for reasons in dropped.values() for n in reasons.values()):
        raise AssertionError(f"the ledger does not add up: {ledger}")
    return ledger


def content_of(fates: pa.Table) -> str:
    """sha256 of what the fates say, whatever library wrote them to a file."""
    digest = hashlib.sha256()
    for batch in fates.to_batches(max_chunksize=BATCH):
        for row in batch.to_pylist():
            digest.update(orjson.dumps(row, option=orjson.OPT_SORT_KEYS) + b"\n")
    return digest.hexdigest()


def fates_table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Fates as a table, ordered."""
    return ordered(table(list(rows), FATES_SCHEMA))


def ordered(fates: pa.Table) -> pa.Table:
    """Fates by run, trace, stage and evidence: the same fates give the same bytes, those of a file too, where Parquet
    names what a list holds in its own way."""
    import pyarrow.compute as pc

    keys = ("run_id", "trace_id", "stage", "evidence")
    told = pa.table([pc.fill_null(fates[name], "") for name in keys], names=keys)
    order = pc.sort_indices(told, sort_keys=[(name, "ascending") for name in keys])
    fates = fates.cast(FATES_SCHEMA)
    # They come in the order of the frame, which is this one where nothing was lost before it.
    return fates if np.array_equal(order.to_numpy(), np.arange(len(order))) else fates.take(order)
