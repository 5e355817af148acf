"""What became of every rollout that entered a dataset, and which of them wait to be graded."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from trace_flywheel.flow.funnel import Curated
from trace_flywheel.flow.uses import Uses
from trace_flywheel.lake.columns import column, table
from trace_flywheel.lake.ledger import FATES_SCHEMA
from trace_flywheel.records.canonical import canonical_json
from trace_flywheel.records.fate import Drop

PIECE = 4_096
"""Fates that stand as texts at a time: evidence is long."""


class Fates:
    """The fate of every rollout that entered, and of those that were lost before it: made in pieces, in their order
    (`ledger.ordered`), as often as asked for. What is held is where each text stands among those of the drops.

    `uses`: the published rows. `late`: kept rows whose last row publication dropped.
    The grade that a later verdict took the place of is evidence, kept or dropped.
    Raises `AssertionError` when a rollout has no fate or two.
    """

    def __init__(self, curated: Curated, uses: Uses, late: Mapping[int, Drop]) -> None:
        self._frame, self._lost = curated.index.frame, curated.index.lost
        drops, self._entered = curated.drops, len(self._frame)
        kept = np.zeros(self._entered, dtype=bool)
        kept[curated.kept] = True
        dropped = drops["row"].to_numpy(dtype=np.int64)
        if kept[dropped].any():
            raise AssertionError(f"{self._frame['trace_id'].iat[int(dropped[kept[dropped]][0])]} is kept and dropped")
        used = uses.counts(self._entered) > 0
        gone = curated.kept[~used[curated.kept]].tolist()
        kept[gone] = False
        # Where each rollout's drop stands: among those of the stages, then among the late ones.
        place = np.full(self._entered, -1, dtype=np.int64)
        place[dropped] = np.arange(len(drops))
        place[gone] = len(drops) + np.arange(len(gone))
        if (
            not (kept ^ (place >= 0)).all()
            or not (kept == used).all()
            or len(drops) + len(gone) + int(kept.sum()) != self._entered
        ):
            raise AssertionError("a rollout that entered is neither kept nor dropped")
        self._kept, self._place, self._row_ids = kept, place, uses.row_ids(self._entered)
        told = [_dropped(late[row]) for row in gone]
        self._texts = {
            name: [*_whole(drops[name]).chunks, column([of_late[name] for of_late in told], pa.string())]
            for name in ("stage", "reason", "evidence")
        }

    def __iter__(self) -> Iterator[pa.Table]:
        order = self._order()
        for at in range(0, len(order), PIECE):
            yield self.of(order[at : at + PIECE])

    def __len__(self) -> int:
        return self._entered + len(self._lost)

    def of(self, numbers: np.ndarray) -> pa.Table:
        """The fates of rows of the frame, and of lost rollouts, which are numbered behind them."""
        entered = numbers < self._entered
        if entered.all():
            return self._of_rows(numbers)
        lost = table([_lost(self._lost[n]) for n in (numbers[~entered] - self._entered).tolist()], FATES_SCHEMA)
        both = pa.concat_tables([self._of_rows(numbers[entered]), lost])
        at = np.empty(len(numbers), dtype=np.int64)
        at[np.append(np.flatnonzero(entered), np.flatnonzero(~entered))] = np.arange(len(numbers))
        return both.take(pa.array(at))

    def _of_rows(self, rows: np.ndarray) -> pa.Table:
        some, place = self._frame[["run_id", "trace_id", "task_id", "superseded"]].iloc[rows], self._place[rows]
        found = {name: _whole(some[name]).cast(pa.string()) for name in FATES_SCHEMA.names[:3]}
        found |= {name: _at(place, texts) for name, texts in self._texts.items()}
        found["evidence"] = _with_earlier_grades(found["evidence"], some["superseded"])
        found |= {"kept": pa.array(self._kept[rows]), "row_ids": self._row_ids.of(rows)}
        return pa.table([found[name] for name in FATES_SCHEMA.names], schema=FATES_SCHEMA)

    def _order(self) -> np.ndarray:
        """All of them by run, trace, stage and evidence. The frame is by run and trace already: stage and evidence are
        looked at where one trace stands more than once."""
        keys = {name: _whole(self._frame[name]).cast(pa.large_string()) for name in ("run_id", "trace_id")}
        ties = np.ones(max(self._entered - 1, 0), dtype=bool)
        for texts in keys.values():
            ties &= pc.equal(texts[:-1], texts[1:]).to_numpy()
        order = np.arange(len(self))
        if self._lost:
            for name, texts in keys.items():
                lost = column([getattr(drop, name) or "" for drop in self._lost], pa.large_string())
                keys[name] = pa.chunked_array([*texts.chunks, lost])
            order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys]).to_numpy()
            order = order.astype(np.int64)
        same = np.zeros(max(len(order) - 1, 0), dtype=bool)
        first, then = order[:-1], order[1:]
        beside = (then < self._entered) & (then == first + 1)
        same[beside] = ties[first[beside]]
        for at in np.flatnonzero((first >= self._entered) | (then >= self._entered)).tolist():
            same[at] = self._key(int(first[at])) == self._key(int(then[at]))
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        if len(tied):
            group = np.cumsum(np.append(True, ~same))[tied].tolist()
            told = self.of(order[tied]).select(["stage", "evidence"]).to_pylist()
            by = sorted(range(len(tied)), key=lambda n: (group[n], told[n]["stage"] or "", told[n]["evidence"] or ""))
            order[tied] = order[tied][by]
        return order

    def _key(self, number: int) -> tuple[str, str]:
        if number >= self._entered:
            lost = self._lost[number - self._entered]
            return lost.run_id or "", lost.trace_id or ""
        return str(self._frame["run_id"].iat[number]), str(self._frame["trace_id"].iat[number])


def _whole(values: pd.Series) -> pa.ChunkedArray:
    """A column of a frame, whatever it is held as."""
    array = pa.array(values)
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _at(place: np.ndarray, texts: Sequence[pa.Array]) -> pa.Array:
    """The text at each place of arrays that follow each other, none where it is negative."""
    ends = np.cumsum([len(one) for one in texts])
    number = np.where(place < 0, -1, np.searchsorted(ends, place, side="right"))
    found, at = [], np.zeros(len(place), dtype=np.int64)
    done = 0
    for n in np.unique(number[number >= 0]).tolist():
        mine = number == n
        of_one = texts[n].take(pa.array(place[mine] - (ends[n] - len(texts[n]))))
        found.append(
            (of_one.dictionary_decode() if isinstance(of_one, pa.DictionaryArray) else of_one).cast(pa.string())
        )
        at[mine] = done + np.arange(len(of_one))
        done += len(of_one)
    return pa.concat_arrays(found).take(pa.array(at, mask=number < 0)) if found else pa.nulls(len(place), pa.string())


def _with_earlier_grades(evidence: pa.Array, superseded: pd.Series) -> pa.Array:
    rows = np.flatnonzero(superseded.notna().to_numpy(dtype=bool)).tolist()
    if not rows:
        return evidence
    texts = evidence.to_pylist()
    for row in rows:
        earlier = {"superseded": orjson.loads(str(superseded.iat[row]))}
        texts[row] = canonical_json({**orjson.loads(texts[row] or "{}"), **earlier}).decode()
    return column(texts, pa.string())


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
