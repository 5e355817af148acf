"""The index of all runs in memory: what the global decisions read. No text.

The frame holds one row per redacted rollout, sorted by (run_id, trace_id, part, position), so that a row's number is a
name for it that no input order changes. Lost rollouts (dropped before the index) are kept beside it: they have a fate
too, and their groups must know.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from trace_flywheel.curation.regrade import join_scores, join_verdicts
from trace_flywheel.curation.sketch import Spans
from trace_flywheel.flow.gathered import index_rows
from trace_flywheel.flow.ingest_tasks import INDEX, REDACTED
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.lake.index import SCALARS
from trace_flywheel.lake.store import Lake, LakeError, Sidecar
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.index import PERMUTATIONS


class Ragged(Sequence[Sequence[int]]):
    """Lists of integers, one a row, in two flat arrays."""

    def __init__(self, values: np.ndarray, offsets: np.ndarray) -> None:
        self.values, self.offsets = values, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, row: int) -> list[int]: ...
    @overload
    def __getitem__(self, row: slice) -> list[list[int]]: ...
    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        return self.values[self.offsets[row] : self.offsets[row + 1]].tolist()


@dataclass(frozen=True)
class Index:
    """All runs. `runs` are the index sidecars that took part, `stale` the runs whose text and index do not agree."""

    frame: pd.DataFrame
    hashes: Ragged
    norms: Ragged
    prompt: Spans
    supervised: Spans
    lost: tuple[Drop, ...]
    runs: tuple[Sidecar, ...]
    stale: tuple[str, ...]
    joined: dict[str, Any] = field(default_factory=dict)
    """What joining grades from files did: counts for people."""
    warnings: tuple[str, ...] = ()

    def spans(self, mask: np.ndarray) -> tuple[Spans, Spans]:
        """Prompt and supervised text of the rows under a mask."""
        rows = np.flatnonzero(mask)
        return self.prompt.take(rows), self.supervised.take(rows)

    def only(self, mask: np.ndarray) -> "Index":
        """The rows under a mask; the lost ones stay."""
        rows = np.flatnonzero(mask)
        return Index(
            self.frame.iloc[rows].reset_index(drop=True),
            _taken(self.hashes, rows),
            _taken(self.norms, rows),
            self.prompt.take(rows),
            self.supervised.take(rows),
            self.lost,
            self.runs,
            self.stale,
            self.joined,
            self.warnings,
        )


def agreeing(lake: Lake) -> tuple[tuple[Sidecar, ...], tuple[str, ...]]:
    """The index sidecars of the runs whose index was made from their text as it is now, and the names of the others."""
    texts = {s.run_id: s.content_digest for s in lake.sidecars(REDACTED)}
    found = lake.sidecars(INDEX)
    good = tuple(s for s in found if s.facts["of"] == texts.get(s.run_id))
    return good, tuple(sorted({s.run_id for s in found} - {s.run_id for s in good}))


def digest_of(runs: Sequence[Sidecar]) -> str:
    """Of the content of every run: what a dataset depends on."""
    return content_id([[s.run_id, s.content_digest, s.inputs_digest] for s in runs])


def load_index(lake: Lake) -> Index:
    """The index of every run whose partitions agree; the others are named in `stale` and take no part."""
    runs, stale = agreeing(lake)
    table = index_rows(lake, runs)
    lost: list[Drop] = []
    for sidecar in runs:
        try:
            lost += lake.drops(sidecar)
        except FileNotFoundError:
            raise LakeError(f"run {sidecar.run_id} changed while the index was read; run it again") from None
    keys = [(name, "ascending") for name in ("run_id", "trace_id", "part", "position")]
    table = table.take(pc.sort_indices(table, sort_keys=keys)).combine_chunks()
    return Index(
        table.select(list(SCALARS)).to_pandas(),
        _ragged(table["message_hashes"]),
        _ragged(table["message_norms"]),
        _spans(table, "prompt"),
        _spans(table, "supervised"),
        tuple(lost),
        runs,
        stale,
    )


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
    if lost:
        joined["corrections"] = {"lines": len(inputs.corrections), "unmatched": len(lost)}
        warnings.append(f"{len(lost)} corrections fit no rollout; the first is of trace {lost[0]!r}.")
    if inputs.problems:
        bad = inputs.problems[0]
        where = f"{bad.path}:{bad.evidence.get('line', 1)}"
        warnings.append(f"{len(inputs.problems)} lines of input files could not be used; the first is {where}.")
    return replace(index, frame=scores.frame, joined=joined, warnings=tuple(warnings))


def _flat(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    array = column.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) and array.num_chunks else array
    if not len(array):
        return np.zeros(0, dtype=np.uint64), np.zeros(1, dtype=np.int64)
    offsets = array.offsets.to_numpy().astype(np.int64)
    values = array.values.to_numpy()[offsets[0] : offsets[-1]]
    return values, offsets - offsets[0]


def _ragged(column: pa.ChunkedArray) -> Ragged:
    return Ragged(*_flat(column))


def _spans(table: pa.Table, name: str) -> Spans:
    values, offsets = _flat(table[f"{name}_shingles"])
    sketches = np.frombuffer(b"".join(table[f"{name}_sketch"].to_pylist()), dtype="<u4").reshape(-1, PERMUTATIONS)
    return Spans(sketches, values.astype(np.uint32, copy=False), offsets)


def _taken(ragged: Ragged, rows: np.ndarray) -> Ragged:
    lengths = np.diff(ragged.offsets)[rows]
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    positions = np.repeat(ragged.offsets[:-1][rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Ragged(ragged.values[positions], offsets)
