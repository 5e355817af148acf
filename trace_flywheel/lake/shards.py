"""The files that hold a version's rows: their names by split, where they are cut, and how they are written."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trace_flywheel.lake.files import new_file
from trace_flywheel.lake.spool import Places, spooled
from trace_flywheel.records.rows import Split

SPLITS: tuple[Split, ...] = ("train", "eval", "held_out")
"""In the order of a version's rows."""
SHARD_ROWS, SHARD_BYTES = 50_000, 256_000_000
"""A shard of published rows: small enough to load whole, large enough to keep the number of files low."""


def shard_stem(split: str) -> str:
    """How the names of a split's shards begin: those of train sort before all others, as their rows do."""
    return "data-" if split == "train" else f"data-{split}-"


class Shard(NamedTuple):
    """A file of rows to be copied together."""

    folder: Path
    layout: str
    path: str
    """In the folder."""
    places: Places

    @property
    def size(self) -> int:
        return sum(place.size for place in self.places)


def write_shard(shard: Shard) -> str:
    """Write the file, anew where one who was killed had begun it; gives the sha256 of its bytes."""
    path, digest = shard.folder / shard.path, hashlib.sha256()
    path.unlink(missing_ok=True)
    with new_file(path) as stream:
        for block in spooled(shard.folder, shard.layout, shard.places):
            stream.write(block)
            digest.update(block)
    return digest.hexdigest()


def cut(places: Places) -> Iterator[Places]:
    """Cut by rows and bytes; one empty shard where there is no row, so that the folder still loads as data."""
    start = rows = size = 0
    for at, place in enumerate(places):
        if rows and (rows >= SHARD_ROWS or size + place.size > SHARD_BYTES):
            yield places.part(start, at)
            start, rows, size = at, 0, 0
        rows, size = rows + place.lines, size + place.size
    yield places.part(start, len(places))
