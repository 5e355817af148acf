"""The greedy pass over rows in rank order: each row is compared with kept rows of its own buckets only.

Two rows are candidates when they share an LSH bucket of the prompt *and* one of the supervised text, so either side's
buckets hold every candidate. The row walks whichever side's buckets hold fewer kept rows: many attempts at one task
are told apart by their answers, boilerplate answers by their prompts. Comparison goes from cheap to exact: set sizes,
the sketches' estimate, the other side's buckets, then Jaccard of the shingle sets. Of several near rows the best one
is the match: the answer depends on candidates alone, never on the walk, so rows that share no candidate may be
compared in different processes (`near_components`).
"""

import numpy as np

from trace_flywheel.curation.compiled import COMPILED, PATIENCE, compiled, pays, plain

NONE = -1
ROW_SECONDS, PAIR_SECONDS = 2e-4, 5e-5
"""Of the walk as plain Python."""
Sets = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Sketches, shingles and their offsets of one text of every row."""


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
def shared(left: np.ndarray, left_from: int, left_to: int, right: np.ndarray, right_from: int, right_to: int) -> float:
    """Exact Jaccard of two sorted sets of shingles, each a stretch of an array; 1 for two empty ones."""
    size = left_to - left_from + right_to - right_from
    if size == 0:
        return 1.0
    common = 0
    if not COMPILED:
        sides = left[left_from:left_to], right[right_from:right_to]
        common = len(np.intersect1d(*sides, assume_unique=True))
        return common / (size - common)
    i = left_from
    j = right_from
    while i < left_to and j < right_to:
        a = left[i]
        b = right[j]
        common += a == b
        i += a <= b
        j += b <= a
    return common / (size - common)


@compiled
def alike(left: int, right: int, threshold: float) -> bool:
    """Jaccard is at most the ratio of the set sizes."""
    return bool(min(left, right) >= threshold * max(left, right))


@compiled
def meet(buckets: np.ndarray, row: int, other: int) -> bool:
    """Whether two rows share a bucket."""
    for band in range(buckets.shape[1]):
        if buckets[row, band] != NONE and buckets[row, band] == buckets[other, band]:
            return True
    return False


def greedy(
    order: np.ndarray,
    owner: np.ndarray,
    insert: np.ndarray,
    candidate: np.ndarray,
    prompt_buckets: np.ndarray,
    prompt: Sets,
    supervised_buckets: np.ndarray,
    supervised: Sets,
    n_buckets: int,
    threshold: float,
    prefilter: float,
) -> tuple[np.ndarray, np.ndarray]:
    """For each row the best kept near-duplicate, or -1, and the Jaccard of prompt and of supervised text.

    `order` lists rows best first. Buckets are (rows, bands) of ids below `n_buckets`, -1 where a row is alone.
    Rows with `candidate` are looked up; rows with `insert` that found no match can be matched by later ones.
    Rows of one `owner` are never compared.
    """
    match = np.full(len(owner), NONE, dtype=np.int64)
    scores = np.zeros((len(owner), 2))
    head = np.full((2, n_buckets), NONE, dtype=np.int32)
    entries = 2 * prompt_buckets.shape[1] * len(order) + 1
    # The loop makes no array: each way to make one takes the compiler a quarter of a second.
    work = (
        head,
        np.zeros_like(head),
        np.full(entries, NONE, dtype=np.int32),
        np.empty(entries, dtype=np.int32),
        np.full(len(owner), NONE, dtype=np.int64),
        np.empty(len(owner), dtype=np.int64),
    )
    walk = _walk if pays("near_kernel", _seconds(len(order), prompt_buckets, supervised_buckets)) else plain(_walk)
    sides = (prompt_buckets, *prompt, supervised_buckets, *supervised)
    walk(order, owner, insert, candidate, *sides, threshold, prefilter, *work, match, scores)
    return match, scores


def _seconds(rows: int, *sides: np.ndarray) -> float:
    """What the walk would take as plain Python: by rows, and by the pairs that share a bucket of the cheaper side."""
    seconds = rows * ROW_SECONDS
    if seconds > PATIENCE:
        return seconds
    pairs = [int((n * (n - 1) // 2).sum()) for n in (np.bincount(side[side != NONE]) for side in sides)]
    return seconds + min(pairs) * PAIR_SECONDS


@compiled
def _walk(
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
    threshold: float,
    prefilter: float,
    head: np.ndarray,
    count: np.ndarray,
    following: np.ndarray,
    entry_row: np.ndarray,
    seen: np.ndarray,
    place: np.ndarray,
    match: np.ndarray,
    scores: np.ndarray,
) -> None:
    """`head`, `count`: of each side and bucket its newest entry and how many; `following`, `entry_row`: of each entry
    the one before it and its row; `seen`: by row the last that looked at it; `place`: its place in the order."""
    bands = prompt_buckets.shape[1]
    used = 0
    for at in range(len(order)):
        row = order[at]
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
                    p, p_end = prompt_offsets[row], prompt_offsets[row + 1]
                    q, q_end = prompt_offsets[other], prompt_offsets[other + 1]
                    s, s_end = supervised_offsets[row], supervised_offsets[row + 1]
                    t, t_end = supervised_offsets[other], supervised_offsets[other + 1]
                    if (
                        alike(s_end - s, t_end - t, threshold)
                        and alike(p_end - p, q_end - q, threshold)
                        and agreement(supervised_sketches, row, other) >= prefilter
                        and agreement(prompt_sketches, row, other) >= prefilter
                        and meet(supervised_buckets if side == 0 else prompt_buckets, row, other)
                    ):
                        of_prompt = shared(prompt_values, p, p_end, prompt_values, q, q_end)
                        of_supervised = shared(supervised_values, s, s_end, supervised_values, t, t_end)
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
