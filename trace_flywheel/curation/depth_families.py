"""Prompts that are near each other: a model must not be judged by a prompt that it was trained on in other words.

Near: Jaccard of character 4-grams at `NEAR` or above, as of a template that is filled in differently.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

NEAR = 0.5
"""Jaccard from which two prompts are of one family."""


def families(prompts: Sequence[str]) -> list[str]:
    """For each prompt the least prompt that it is near, by way of others: templates filled in differently are one
    family."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    rows, columns = _near(*[_grams(prompts, {})] * 2)
    links = csr_matrix((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(len(prompts), len(prompts)))
    _, label = connected_components(links, directed=False)
    first: dict[int, str] = {}
    for name, prompt in zip(label.tolist(), prompts, strict=True):
        first[name] = min(first.get(name, prompt), prompt)
    return [first[name] for name in label.tolist()]


def near_any(prompts: Sequence[str], others: Sequence[str]) -> list[int]:
    """Positions of the prompts that are near any of the others, or equal."""
    numbers: dict[str, int] = {}
    left, right = _grams(prompts, numbers), _grams(others, numbers)
    left.resize(left.shape[0], len(numbers))
    right.resize(right.shape[0], len(numbers))
    return [int(i) for i in np.unique(_near(left, right)[0])]


def _grams(prompts: Sequence[str], numbers: dict[str, int]) -> "csr_matrix":
    """Which 4-grams a prompt has; `numbers` gives them columns and grows."""
    from scipy.sparse import csr_matrix

    grams = [{p[i : i + 4] for i in range(max(1, len(p) - 3))} for p in prompts]
    columns = [numbers.setdefault(gram, len(numbers)) for own in grams for gram in sorted(own)]
    ends = np.cumsum([0, *map(len, grams)])
    return csr_matrix((np.ones(len(columns), dtype=np.int32), columns, ends), shape=(len(prompts), len(numbers)))


def _near(left: "csr_matrix", right: "csr_matrix") -> tuple[np.ndarray, np.ndarray]:
    common = (left @ right.T).tocoo()
    sizes = np.diff(left.indptr)[common.row] + np.diff(right.indptr)[common.col]
    near = common.data >= NEAR * (sizes - common.data)
    return common.row[near], common.col[near]
