"""Work that makes many objects and no garbage: Python's collector hardly looks for any meanwhile."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

GARBAGE = 50_000
"""New containers, those freed again not counted, after which cycles are looked for."""


@contextmanager
def few_collections() -> Iterator[None]:
    """Rollouts hold no cycles: at its usual threshold the collector looks for some during a tenth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(GARBAGE, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
