"""The walk through a segment's buckets: candidates of each query in the order of their rows, from cheap to exact.

The bands of one side are walked together, so that rows come in ascending order and the first that verifies ends the
walk: a bucket of a hundred thousand copies costs one comparison. What the segment holds no shingles of is handed back
undecided.
"""

import numpy as np

from trace_flywheel.curation.compiled import COMPILED, compiled
from trace_flywheel.curation.near_kernel import alike, shared


@compiled
def agreeing(left: np.ndarray, row: int, right: np.ndarray, query: int, side: int) -> float:
    """Share of equal bytes of two sketches of a side: never below the share of equal values."""
    if not COMPILED:
        return float(np.mean(left[side, row] == right[side, query]))
    equal = 0
    for k in range(left.shape[2]):
        equal += left[side, row, k] == right[side, query, k]
    return float(equal / left.shape[2])


@compiled
def survivors(
    first: int,
    open_queries: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    side: np.ndarray,
    key_rows: np.ndarray,
    signs: np.ndarray,
    sizes: np.ndarray,
    offsets: np.ndarray,
    values: np.ndarray,
    away: np.ndarray,
    query_signs: np.ndarray,
    prompt_values: np.ndarray,
    prompt_offsets: np.ndarray,
    supervised_values: np.ndarray,
    supervised_offsets: np.ndarray,
    threshold: float,
    prefilter: float,
    out_query: np.ndarray,
    out_row: np.ndarray,
    out_verified: np.ndarray,
    out_scores: np.ndarray,
) -> tuple[int, int]:
    """Fill the `out` arrays from query `first` on; (first query that found no more room, entries written).

    `open_queries`: mask of the queries to look up. `low`, `high`: (side, band, query) bounds of their buckets; `side`:
    the one whose buckets are walked. `away`: rows of the segment that count as not there. Of a query come the rows that
    may be near, ascending, undecided ones first and a verified one last.
    """
    bands = key_rows.shape[1]
    heads = np.zeros(bands, dtype=np.int64)
    used = 0
    for query in range(first, len(side)):
        if not open_queries[query]:
            continue
        s = side[query]
        rows_left = 0
        for band in range(bands):
            heads[band] = low[s, band, query]
            rows_left += high[s, band, query] - low[s, band, query]
        if used + min(rows_left, len(away)) > len(out_row):
            return query, used
        p_from, p_to = prompt_offsets[query], prompt_offsets[query + 1]
        s_from, s_to = supervised_offsets[query], supervised_offsets[query + 1]
        while True:
            row = np.int64(-1)
            for band in range(bands):
                if heads[band] < high[s, band, query]:
                    head = np.int64(key_rows[s, band, heads[band]])
                    if row == -1 or head < row:
                        row = head
            if row == -1:
                break
            for band in range(bands):
                if heads[band] < high[s, band, query] and np.int64(key_rows[s, band, heads[band]]) == row:
                    heads[band] += 1
            if away[row]:
                continue
            of_prompt, of_supervised = int(np.int64(sizes[0, row])), int(np.int64(sizes[1, row]))
            if not alike(p_to - p_from, of_prompt, threshold):
                continue
            if not alike(s_to - s_from, of_supervised, threshold):
                continue
            if agreeing(signs, int(row), query_signs, query, 1) < prefilter:
                continue
            if agreeing(signs, int(row), query_signs, query, 0) < prefilter:
                continue
            verified = True
            p = -1.0
            a = -1.0
            if offsets[0, row + 1] - offsets[0, row] == of_prompt:
                p = shared(prompt_values, p_from, p_to, values, offsets[0, row], offsets[0, row + 1])
                if p < threshold:
                    continue
            else:
                verified = False
            if offsets[1, row + 1] - offsets[1, row] == of_supervised:
                a = shared(supervised_values, s_from, s_to, values, offsets[1, row], offsets[1, row + 1])
                if a < threshold:
                    continue
            else:
                verified = False
            out_query[used] = query
            out_row[used] = row
            out_verified[used] = verified
            out_scores[used, 0] = p
            out_scores[used, 1] = a
            used += 1
            if verified:
                break
    return len(side), used
