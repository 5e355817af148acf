"""Which rows have to be compared in one place: the connected components of shared LSH buckets.

Near-duplicate candidates share a bucket of the prompt and one of the supervised text (`near_kernel`). So two of them
are in one component of the prompts' buckets, and share a supervised bucket inside it: the components of *that* sharing
hold every candidate pair. Rows of different components never meet, whichever process compares them, and the greedy
pass over each component alone gives what the pass over all rows gives. Only band keys are needed to find components,
8 bytes a band: neither sketches nor shingles.
"""

from collections.abc import Iterable

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from trace_flywheel.curation.bands import BANDS, ROWS, band_keys
from trace_flywheel.curation.sketch import Spans

Edges = tuple[np.ndarray, np.ndarray]


def keys_of(spans: Spans) -> list[np.ndarray]:
    """The keys of every band, one array of uint64 a band."""
    return [band_keys(spans.sketches[:, band * ROWS : (band + 1) * ROWS]) for band in range(BANDS)]


def shared_keys(keys: np.ndarray, within: np.ndarray | None = None) -> Edges:
    """Rows of equal key (and equal `within`), each tied to the one before it: a bucket of n rows has n - 1 edges."""
    order = np.argsort(keys, kind="stable") if within is None else np.lexsort((within, keys))
    left, right = order[:-1], order[1:]
    same = keys[left] == keys[right]
    if within is not None:
        same &= within[left] == within[right]
    return left[same], right[same]


def tied(n: int, bands: Iterable[Edges]) -> np.ndarray:
    """Component of each of `n` rows: equal numbers for rows that a chain of edges ties. One band is held at a time."""
    labels = np.arange(n)
    for left, right in bands:
        ties = coo_array((np.ones(len(left), dtype=bool), (labels[left], labels[right])), shape=(n, n))
        _, merged = connected_components(ties, directed=False)
        labels = merged[labels]
    return labels


def packed(labels: np.ndarray, most: int) -> list[np.ndarray]:
    """Rows of the components of two rows or more, in batches of whole components of about `most` rows, each sorted."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(labels[order]) != 0)) if len(order) else order
    batches: list[list[np.ndarray]] = []
    size = most
    for rows in np.split(order, starts[1:]) if len(order) else ():
        if len(rows) < 2:
            continue
        if size + len(rows) > most:
            batches.append([])
            size = 0
        batches[-1].append(rows)
        size += len(rows)
    return [np.sort(np.concatenate(batch)) for batch in batches]
