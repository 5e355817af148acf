"""The order of names as numbers, which stay when the names are not looked at any more."""

from collections.abc import Sequence

import numpy as np


def ranks(names: Sequence[str]) -> np.ndarray:
    """Of each its place among them all, sorted. Names that occur twice are not expected."""
    found = np.empty(len(names), dtype=np.int64)
    found[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return found
