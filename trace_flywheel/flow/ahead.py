"""Many files read on all cores, in their order, few of them held at a time."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

from trace_flywheel.flow.children import worker_count

Item = TypeVar("Item")
Read = TypeVar("Read")

AHEAD = 8
"""Files a core that are read ahead."""


def read_files(read: Callable[[Item], Read], items: Sequence[Item]) -> Iterator[Read]:
    """`read` of every item, in order; Arrow reads beside Python."""
    workers = worker_count(0)
    with ThreadPoolExecutor(workers) as pool:
        for start in range(0, len(items), AHEAD * workers):
            yield from pool.map(read, items[start : start + AHEAD * workers])
    pa.default_memory_pool().release_unused()
