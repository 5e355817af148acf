"""Which recordings give rows: decided per rollout, never between rows of one rollout.

Order: exact duplicates, then the best of n (rollouts of one context of which any is scored: the best by judge score,
reward and content hash stays), then near-duplicates (prompt and answers both). A rollout's rows that another, better
rollout gives word for word are then taken once: two attempts may share their first turns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import orjson
import pandas as pd

from trace_flywheel.curation.decisions import drops, kept
from trace_flywheel.curation.dedup import exact_duplicates, near_duplicates, precedence
from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.curation.sketch import Spans
from trace_flywheel.flow.index import entries
from trace_flywheel.flow.recordings.rows import Harvest
from trace_flywheel.lake.index import SCALARS
from trace_flywheel.records.fate import Stage
from trace_flywheel.records.index import IndexEntry


@dataclass(frozen=True)
class Choice:
    """`lost[i]` is why rollout i gives no rows (`reason` and what decided), None where it does; `shared` are the
    (rollout, position among its drafts) of rows that a better rollout gives."""

    lost: list[dict[str, Any] | None]
    shared: frozenset[tuple[int, int]]


def entries_of(harvests: Sequence[Harvest], scores: Mapping[int, float]) -> list[IndexEntry]:
    """Index entries, `scores` (by position) as judge scores."""
    judged = (msgspec.structs.replace(one.rollout, judge_score=scores.get(i)) for i, one in enumerate(harvests))
    return list(entries(enumerate(judged), 0, Holdout((), 1.0), "mask"))


def frame_of(entries: Sequence[IndexEntry]) -> pd.DataFrame:
    """The index frame of entries, in their order."""
    frame = pd.DataFrame([{name: getattr(e, name) for name in SCALARS} for e in entries], columns=list(SCALARS))
    return frame.astype({"reward": "float64", "judge_score": "float64"})


def chosen(harvests: Sequence[Harvest], scores: Mapping[int, float], threshold: float) -> Choice:
    """Decide over all rollouts that have drafts; the others are neither dropped nor compared."""
    entries = entries_of(harvests, scores)
    frame = frame_of(entries)
    has_rows = np.array([bool(one.drafts) for one in harvests], dtype=bool)
    rank = precedence(frame)
    exact = exact_duplicates(frame, has_rows, rank)
    alive = has_rows & kept(len(frame), exact)
    best = _best_of_n(frame, alive, rank)
    alive &= kept(len(frame), best)
    left = [entries[row] for row in np.flatnonzero(alive).tolist()]
    prompt = Spans.of_columns([e.prompt_sketch for e in left], [e.prompt_shingles for e in left])
    learned = Spans.of_columns([e.supervised_sketch for e in left], [e.supervised_shingles for e in left])
    near = near_duplicates(frame, alive, rank, prompt, learned, threshold)
    alive &= kept(len(frame), near)
    lost: list[dict[str, Any] | None] = [None] * len(harvests)
    for table in (exact, best, near):
        for row, reason, evidence in zip(table["row"], table["reason"], table["evidence"], strict=True):
            lost[row] = {"reason": "not_best_of_n" if table is best else reason, **orjson.loads(evidence)}
    return Choice(lost, _shared(harvests, alive, rank))


def _best_of_n(frame: pd.DataFrame, alive: np.ndarray, rank: np.ndarray) -> pd.DataFrame:
    rows = np.flatnonzero(alive)
    group = frame["context_hash"].to_numpy()[rows]
    scored = frame["reward"].notna().to_numpy()[rows] | frame["judge_score"].notna().to_numpy()[rows]
    table = pd.DataFrame({"row": rows, "group": group, "rank": rank[rows], "scored": scored})
    table = table[table.groupby("group")["scored"].transform("any")]
    best = table.sort_values("rank").groupby("group", sort=False)["row"].first()
    below = table[~table["row"].isin(best)].sort_values("row")
    evidence = [
        {"kept": frame["trace_id"].iat[best[g]], "kept_reward": _number(frame["reward"].iat[best[g]])}
        for g in below["group"]
    ]
    return drops(Stage.SELECTION, below["row"].to_numpy(), "below_fraction", evidence)


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def _shared(harvests: Sequence[Harvest], alive: np.ndarray, rank: np.ndarray) -> frozenset[tuple[int, int]]:
    owner: dict[str, int] = {}
    for i in np.flatnonzero(alive)[np.argsort(rank[np.flatnonzero(alive)], kind="stable")].tolist():
        for draft in harvests[i].drafts:
            owner.setdefault(draft.row_hash, i)
    return frozenset(
        (i, k)
        for i in np.flatnonzero(alive).tolist()
        for k, draft in enumerate(harvests[i].drafts)
        if owner[draft.row_hash] != i
    )
