"""The ledger: what became of every rollout in every dataset, and the sums that must add up.

A fate is one rollout in one dataset: kept with its rows, or dropped at one stage for one reason with evidence. The
fates of a version are its `fates.parquet`, and part of what names it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import orjson
import pyarrow as pa

from trace_flywheel.lake.columns import table
from trace_flywheel.records.fate import Stage

if TYPE_CHECKING:
    import hashlib

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


class Sums:
    """The ledger of fates that come in pieces; `add` each."""

    def __init__(self) -> None:
        self._entered = self._kept = 0
        self._dropped: Counter[tuple[str, str]] = Counter()

    def add(self, fates: pa.Table) -> None:
        """Raises `AssertionError` when a fate is neither kept nor dropped with a reason."""
        import pyarrow.compute as pc  # a thousand functions, made when it is imported; sums need none

        self._entered += fates.num_rows
        self._kept += pc.sum(fates["kept"]).as_py() or 0
        lost = fates.select(["stage", "reason"]).filter(pc.invert(fates["kept"]))
        for batch in lost.to_batches():
            for (stage, reason), n in _counted(batch["stage"], batch["reason"]):
                if stage is None or reason is None:
                    raise AssertionError(f"{n} fates are neither kept nor dropped for a reason")
                self._dropped[stage, reason] += n

    def ledger(self) -> Ledger:
        """Of all that were added. Raises `AssertionError` when it does not add up."""
        dropped: dict[str, dict[str, int]] = {}
        for (stage, reason), n in sorted(self._dropped.items()):
            dropped.setdefault(stage, {})[reason] = n
        ledger = Ledger(self._entered, self._kept, dropped)
        if ledger.entered != ledger.kept + self._dropped.total():
            raise AssertionError(f"the ledger does not add up: {ledger}")
        return ledger


def _counted(first: pa.Array, second: pa.Array) -> Iterator[tuple[tuple[str | None, str | None], int]]:
    """How often texts stand beside each other. (Arrow groups by its engine for datasets, 50 MB of a process.)"""
    names, codes = [], []
    for texts in (first, second):
        encoded = texts.dictionary_encode()
        names.append([None, *encoded.dictionary.to_pylist()])
        codes.append(encoded.indices.fill_null(-1).to_numpy().astype(np.int64) + 1)
    pairs, counts = np.unique(codes[0] * len(names[1]) + codes[1], return_counts=True)
    for pair, n in zip(pairs.tolist(), counts.tolist(), strict=True):
        one, other = divmod(pair, len(names[1]))
        yield (names[0][one], names[1][other]), n


def ledger_of(fates: pa.Table) -> Ledger:
    """Counts of a fates table. Raises `AssertionError` when a fate is neither kept nor dropped with a reason."""
    sums = Sums()
    sums.add(fates)
    return sums.ledger()


def tell(digest: "hashlib._Hash", fates: pa.Table) -> None:
    """Add what fates say to a digest: the same whatever library writes them to a file, and in whatever pieces."""
    for batch in fates.to_batches(max_chunksize=BATCH):
        for row in batch.to_pylist():
            digest.update(orjson.dumps(row, option=orjson.OPT_SORT_KEYS) + b"\n")


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
