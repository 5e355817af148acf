"""Duplicates: a row is dropped against a kept row that stands for it, and the evidence names that row.

Exact: equal `exact_hash` (the row's content, folded). Near: Jaccard of word 5-shingles at or above the threshold for
the prompt *and* for the supervised text, so that neither a templated prompt nor a boilerplate answer alone makes two
rows one. Candidates come from LSH (16 bands of 8 rows: 0.994 of pairs at 0.85), each is verified on the shingle sets.

Rows are taken best first and compared with kept rows only: there are no chains in which A stands for B that stood for
C, and the answer does not depend on the order of the input. A row is never compared with its own rollout.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from trace_flywheel.curation.bands import BANDS, ROWS, band_keys
from trace_flywheel.curation.corpus_match import equal_rows, measured, near_rows
from trace_flywheel.curation.decisions import drops, records
from trace_flywheel.curation.near_kernel import NONE, greedy
from trace_flywheel.curation.sketch import Spans
from trace_flywheel.curation.standing import ESTIMATE_SLACK, Corpus
from trace_flywheel.records.fate import Stage


def precedence(frame: pd.DataFrame) -> np.ndarray:
    """Rank of each row among its duplicates, 0 first: corrections, then judge score, reward, content hash.

    Rows with equal content follow in the order of their attempt, so that input order never decides.
    """
    names = ["content_hash", "attempt_hash", "run_id", "trace_id"]
    keys = pa.table(
        {
            "correction": frame["has_correction"].to_numpy(dtype=bool),
            "judge": pa.array(pd.to_numeric(frame["judge_score"]), from_pandas=True),
            "reward": pa.array(pd.to_numeric(frame["reward"]), from_pandas=True),
            **{name: pa.array(frame[name], from_pandas=True) for name in names},
        }
    )
    wanted = {"correction": "descending", "judge": "descending", "reward": "descending"}
    sort_keys = [(name, wanted.get(name, "ascending")) for name in keys.column_names]
    rank = np.empty(len(frame), dtype=np.int64)
    rank[pc.sort_indices(keys, sort_keys=sort_keys).to_numpy()] = np.arange(len(frame))
    return rank


def exact_duplicates(frame: pd.DataFrame, alive: np.ndarray, rank: np.ndarray) -> pd.DataFrame:
    """Drops of alive rows whose `exact_hash` a better-ranked alive row has. `alive`: mask, `rank`: smaller wins."""
    rows = _best_first(alive, rank)
    codes, _ = pd.factorize(frame["exact_hash"].iloc[rows])  # codes follow first appearance, which is the best row
    first = rows[np.unique(codes, return_index=True)[1]]
    kept = first[codes] if len(rows) else rows
    lost = kept != rows
    evidence = ({"kept": address} for address in _addresses(frame, kept[lost]))
    return _sorted(drops(Stage.EXACT_DUPLICATE, rows[lost], "exact_duplicate", evidence))


def corpus_exact_duplicates(frame: pd.DataFrame, alive: np.ndarray, corpus: Corpus) -> pd.DataFrame:
    """Drops of alive rows whose `exact_hash` stands in the corpus."""
    rows = np.flatnonzero(alive)
    held = equal_rows(frame["exact_hash"].iloc[rows].tolist(), corpus)
    return drops(Stage.EXACT_DUPLICATE, rows[list(held)], "corpus_exact_duplicate", list(held.values()))


def near_duplicates(
    frame: pd.DataFrame, alive: np.ndarray, rank: np.ndarray, prompt: Spans, supervised: Spans, threshold: float
) -> pd.DataFrame:
    """Drops of alive rows near a better-ranked row that is itself kept. `prompt`, `supervised`: of the alive rows."""
    rows = np.flatnonzero(alive)
    match, scores = matches(owners(frame)[rows], rank[rows], prompt, supervised, threshold)
    return near_drops(frame, rows, match, scores, threshold)


def matches(
    owner: np.ndarray, rank: np.ndarray, prompt: Spans, supervised: Spans, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """For each of n rows the best kept row that it is near (`NONE`: it is kept), and the Jaccards of both texts.

    `owner`: the rollout of each row, `rank`: smaller wins.
    """
    everyone = np.ones(len(owner), dtype=bool)
    return _matched(
        order=np.argsort(rank, kind="stable"),
        owner=owner,
        insert=everyone,
        candidate=everyone,
        prompt=prompt,
        supervised=supervised,
        threshold=threshold,
    )


def near_drops(
    frame: pd.DataFrame, rows: np.ndarray, match: np.ndarray, scores: np.ndarray, threshold: float
) -> pd.DataFrame:
    """The drops of `matches` among some rows of the frame."""
    lost = match != NONE
    said = (measured(pair, threshold) for pair in scores[lost].tolist())
    evidence = ({"kept": a, **m} for a, m in zip(_addresses(frame, rows[match[lost]]), said, strict=True))
    return drops(Stage.NEAR_DUPLICATE, rows[lost], "near_duplicate", evidence)


def corpus_near_duplicates(
    alive: np.ndarray, prompt: Spans, supervised: Spans, corpus: Corpus, threshold: float
) -> pd.DataFrame:
    """Drops of alive rows near a row of the corpus. `prompt`, `supervised`: of the alive rows."""
    rows = np.flatnonzero(alive)
    held = near_rows(prompt, supervised, corpus, threshold)
    return drops(Stage.NEAR_DUPLICATE, rows[list(held)], "corpus_near_duplicate", list(held.values()))


def near_prompts(
    rows: np.ndarray, others: np.ndarray, prompt: Spans, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """For every text under the mask `rows` the one under the mask `others` that is near (`NONE` where there is none),
    and the Jaccard of both. `prompt`: as many texts as the masks are long."""
    match, scores = _matched(
        order=np.concatenate([np.flatnonzero(others), np.flatnonzero(rows)]),
        owner=np.arange(len(prompt)),
        insert=others,
        candidate=rows,
        prompt=prompt,
        supervised=prompt,
        threshold=threshold,
    )
    return match, scores[:, 0]


def _matched(
    order: np.ndarray,
    owner: np.ndarray,
    insert: np.ndarray,
    candidate: np.ndarray,
    prompt: Spans,
    supervised: Spans,
    threshold: float,
) -> tuple[np.ndarray, np.ndarray]:
    prompt_buckets, n_prompt = _buckets(prompt.sketches, order)
    supervised_buckets, n_supervised = _buckets(supervised.sketches, order)
    return greedy(
        order,
        owner,
        insert,
        candidate,
        prompt_buckets,
        (prompt.sketches, prompt.values, prompt.offsets),
        supervised_buckets,
        (supervised.sketches, supervised.values, supervised.offsets),
        max(n_prompt, n_supervised),
        threshold,
        max(0.0, threshold - ESTIMATE_SLACK),
    )


def _buckets(sketches: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, int]:
    """Bucket ids (all rows, bands) of the rows given, -1 for a band value that no other of them has; how many ids."""
    buckets = np.full((len(sketches), BANDS), NONE, dtype=np.int32)
    used = 0
    for band in range(BANDS):
        codes, distinct = pd.factorize(band_keys(sketches[rows, band * ROWS : (band + 1) * ROWS]))
        shared = np.bincount(codes, minlength=len(distinct)) > 1
        ids = np.where(shared, np.cumsum(shared) - 1 + used, NONE)
        buckets[rows, band] = ids[codes] if len(codes) else NONE
        used += int(shared.sum())
    return buckets, used


def owners(frame: pd.DataFrame) -> np.ndarray:
    """A number for the rollout of each row."""
    return frame.groupby(["run_id", "trace_id"], sort=False).ngroup().to_numpy(dtype=np.int64)


def _best_first(alive: np.ndarray, rank: np.ndarray) -> np.ndarray:
    rows = np.flatnonzero(alive)
    return rows[np.argsort(rank[rows], kind="stable")]


def _addresses(frame: pd.DataFrame, rows: np.ndarray) -> Iterator[dict[str, Any]]:
    return records(frame[["run_id", "trace_id"]], rows)


def _sorted(answer: pd.DataFrame) -> pd.DataFrame:
    return answer.sort_values("row", ignore_index=True)
