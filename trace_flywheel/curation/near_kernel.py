"""The greedy pass over rows in rank order: each row is compared with kept rows of its own buckets only.

Two rows are candidates when they share an LSH bucket of the prompt *and* one of the supervised text, so either side's
buckets hold every candidate. The row walks whichever side's buckets hold fewer kept rows: many attempts at one task
are told apart by their answers, boilerplate answers by their prompts. Comparison goes from cheap to exact: set sizes,
the sketches' estimate, the other side's buckets, then Jaccard of the shingle sets. Of several near rows the best one
is the match: the answer depends on candidates alone, never on the walk, so rows that share no candidate may be
compared in different processes (`near_components`).
"""

import numpy as np

from trace_flywheel.curation.compiled import COMPILED, compiled

NONE = -1


@compiled
def agreement(sketches: np.ndarray, row: int, other: int) -> float:
    """Share of equal sketch values: the estimate of Jaccard."""
    if not COMPILED:
        return float(np.mean(sketches[row] == sketches[other]))
    equal = 0
    for k in range(sketches.shape[1]):
        equal += sketches[row, k] == sketches[other, k]
    return float(equal / sketches.shape[1])


@compiled
def shared(left: np.ndarray, right: np.ndarray) -> float:
    """Exact Jaccard of two sorted sets of shingles; 1 for two empty ones."""
    if len(left) == 0 and len(right) == 0:
        return 1.0
    if not COMPILED:
        common = len(np.intersect1d(left, right, assume_unique=True))
        return common / (len(left) + len(right) - common)
    i = 0
    j = 0
    common = 0
    while i < len(left) and j < len(right):
        a = left[i]
        b = right[j]
        common += a == b
        i += a <= b
        j += b <= a
    return common / (len(left) + len(right) - common)


@compiled
def jaccard(values: np.ndarray, offsets: np.ndarray, row: int, other: int) -> float:
    """Exact Jaccard of two rows' shingles."""
    return shared(values[offsets[row] : offsets[row + 1]], values[offsets[other] : offsets[other + 1]])


@compiled
def alike(left: int, right: int, threshold: float) -> bool:
    """Jaccard is at most the ratio of the set sizes."""
    return bool(min(left, right) >= threshold * max(left, right))


@compiled
def sizes_allow(offsets: np.ndarray, row: int, other: int, threshold: float) -> bool:
    """Whether two rows' sizes allow a Jaccard of the threshold."""
    return alike(offsets[row + 1] - offsets[row], offsets[other + 1] - offsets[other], threshold)


@compiled
def meet(buckets: np.ndarray, row: int, other: int) -> bool:
    """Whether two rows share a bucket."""
    for band in range(buckets.shape[1]):
        if buckets[row, band] != NONE and buckets[row, band] == buckets[other, band]:
            return True
    return False


@compiled
def greedy(
    order: np.ndarray,
    owner: np.ndarray,
    insert: np.ndarray,
    candidate: np.ndarray,
    prompt_buckets: np.ndarray,
    prompt_sketches: np.ndarray,
    prompt_values: np.ndarray,
    prompt_offsets: np.ndarray,
    supervised_buckets: np.ndarray,
    supervised_sketches: np.ndarray,
    supervised_values: np.ndarray,
    supervised_offsets: np.ndarray,
    n_buckets: int,
    threshold: float,
    prefilter: float,
    match: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Fill `match` (row of the best kept near-duplicate, or -1) and `scores` (Jaccard of prompt, of supervised text).

    `order` lists rows best first. Buckets are (rows, bands) of ids below `n_buckets`, -1 where a row is alone.
    Rows with `candidate` are looked up; rows with `insert` that found no match can be matched by later ones.
    Rows of one `owner` are never compared.
    """
    bands = prompt_buckets.shape[1]
    head = np.full((2, n_buckets), NONE, dtype=np.int32)
    count = np.zeros((2, n_buckets), dtype=np.int32)
    entries = 2 * bands * len(order) + 1
    following = np.full(entries, NONE, dtype=np.int32)
    entry_row = np.empty(entries, dtype=np.int32)
    seen = np.full(len(owner), NONE, dtype=np.int64)
    place = np.empty(len(owner), dtype=np.int64)
    used = 0
    for at, row in enumerate(order):
        place[row] = at
        if candidate[row]:
            cost_prompt = 0
            cost_supervised = 0
            for band in range(bands):
                if prompt_buckets[row, band] != NONE:
                    cost_prompt += count[0, prompt_buckets[row, band]]
                if supervised_buckets[row, band] != NONE:
                    cost_supervised += count[1, supervised_buckets[row, band]]
            side = 0 if cost_prompt < cost_supervised else 1
            for band in range(bands):
                bucket = prompt_buckets[row, band] if side == 0 else supervised_buckets[row, band]
                entry = head[side, bucket] if bucket != NONE else NONE
                while entry != NONE:
                    other = entry_row[entry]
                    entry = following[entry]
                    if seen[other] == row or owner[other] == owner[row]:
                        continue
                    seen[other] = row
                    if match[row] != NONE and place[other] > place[match[row]]:
                        continue
                    if (
                        sizes_allow(supervised_offsets, row, other, threshold)
                        and sizes_allow(prompt_offsets, row, other, threshold)
                        and agreement(supervised_sketches, row, other) >= prefilter
                        and agreement(prompt_sketches, row, other) >= prefilter
                        and meet(supervised_buckets if side == 0 else prompt_buckets, row, other)
                    ):
                        of_prompt = jaccard(prompt_values, prompt_offsets, row, other)
                        of_supervised = jaccard(supervised_values, supervised_offsets, row, other)
                        if of_prompt >= threshold and of_supervised >= threshold:
                            match[row] = other
                            scores[row, 0] = of_prompt
                            scores[row, 1] = of_supervised
        if insert[row] and match[row] == NONE:
            for side in range(2):
                for band in range(bands):
                    bucket = prompt_buckets[row, band] if side == 0 else supervised_buckets[row, band]
                    if bucket != NONE:
                        entry_row[used] = row
                        following[used] = head[side, bucket]
                        head[side, bucket] = used
                        count[side, bucket] += 1
                        used += 1
