"""What a page shows of an asset over all runs, gathered where its rows are: counts and first rows, not all."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import msgspec
import orjson
import pyarrow as pa

from trace_flywheel.flow.names import ADVANTAGES, CLASSIFIER
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake.dataset import lines, read_version, rewards
from trace_flywheel.lake.store import Lake

BINS = 10
FIRST_ROWS = 3


class Bins(msgspec.Struct, frozen=True):
    """How many of `n` values lie in each of `BINS` equal intervals from the least to the largest."""

    n: int = 0
    low: float = 0.0
    high: float = 0.0
    counts: tuple[int, ...] = (0,) * BINS

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Bins":
        """Of the values that are there."""
        known = [value for value in values if value is not None]
        if not known:
            return cls()
        low, high = min(known), max(known)
        width = (high - low) / BINS or 1.0
        counts = [0] * BINS
        for value in known:
            counts[min(int((value - low) / width), BINS - 1)] += 1
        return cls(len(known), low, high, tuple(counts))


class Glance(msgspec.Struct, frozen=True):
    """Of a table its columns, of a dataset its first rows; `numbers` by what they are of."""

    numbers: dict[str, Bins] = {}
    columns: pa.Schema | None = None
    first: tuple[dict[str, Any], ...] = ()


def glance(lake: Lake, made: Made) -> Glance:
    """Of what an asset became. Nothing of what was refused."""
    if made.name == ADVANTAGES:
        numbers = lake.table(ADVANTAGES, "advantages", ("reward", "advantage"))
        bins = {name: Bins.of(numbers[name].to_pylist()) for name in numbers.column_names}
        return Glance(bins, lake.table_schema(ADVANTAGES, "advantages"))
    if made.status == "refused" or made.name.endswith(CLASSIFIER):
        return Glance()
    version = read_version(made.path)
    first = tuple(orjson.loads(line) for line in islice(lines(version), FIRST_ROWS))
    return Glance({"reward": Bins.of(rewards(version))}, first=first)
