"""The long columns of the index of small runs, put together into files that are worth opening.

They lie beside what is gathered (`gathered`), in the order of runs, and hold a run whole or not at all. A run of a few
rollouts costs a millisecond to open and microseconds to read: ten thousand of them are opened once, and from then on
what they hold is read from a few packs. Larger runs stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from trace_flywheel.lake.index import INDEX_SCHEMA, SCALARS
from trace_flywheel.lake.parts import write_table
from trace_flywheel.lake.sidecar import Sidecar

SMALL_ROWS = 16
"""Rollouts of a run up to which it is packed: opening its file costs more than reading it."""
PACK_ROWS = 1_000
"""Rollouts from which on a pack is full: 4 MB."""
LONG_SCHEMA = pa.schema([field for field in INDEX_SCHEMA if field.name not in SCALARS])
_STEM = "long-"


class Place(NamedTuple):
    """Where the first row of a run stands; the others follow in the order of its parts."""

    pack: int
    start: int


def is_small(run: Sidecar) -> bool:
    return sum(part.rows for part in run.parts) <= SMALL_ROWS


def is_pack(path: Path) -> bool:
    return path.name.startswith(_STEM)


def path_of(folder: Path, pack: int) -> Path:
    return folder / f"{_STEM}{pack:05d}.parquet"


class Packs:
    """Packs under way in a folder that is being written."""

    def __init__(self, folder: Path, old: Path | None, standing: Mapping[str, Place]) -> None:
        """`standing`: the runs that are taken over from the packs in `old`."""
        self._folder, self._old, self._standing = folder, old, standing
        self._waiting: list[pa.Table] = []
        self._rows = self._pack = 0
        self._open: tuple[int, pa.Table] | None = None
        self.places: dict[str, Place] = {}

    def add(self, run: Sidecar, rows: pa.Table) -> None:
        """The long columns of a small run, runs in their order."""
        self.places[run.run_id] = Place(self._pack, self._rows)
        self._waiting.append(rows)
        self._rows += rows.num_rows
        if self._rows >= PACK_ROWS:
            self.close()

    def keep(self, run: Sidecar) -> None:
        """Take over a run as it stands, where it does."""
        place = self._standing.get(run.run_id)
        if place is None or self._old is None:
            return
        if self._open is None or self._open[0] != place.pack:
            self._open = place.pack, pq.ParquetFile(path_of(self._old, place.pack)).read()
        self.add(run, self._open[1].slice(place.start, sum(part.rows for part in run.parts)))

    def close(self) -> None:
        """End the pack under way."""
        if self._waiting:
            write_table(path_of(self._folder, self._pack), pa.concat_tables(self._waiting).combine_chunks())
            self._pack += 1
        self._waiting, self._rows = [], 0


def starts_of(run: Sidecar, place: Place) -> Iterator[int]:
    """Where the first row of each part of a packed run stands in its pack."""
    at = place.start
    for part in run.parts:
        yield at
        at += part.rows


def columns_of(places: Sequence[Place | None]) -> tuple[pa.Array, pa.Array]:
    """Places as two columns; null where there is none."""
    return (
        pa.array([place and place.pack for place in places], pa.int32()),
        pa.array([place and place.start for place in places], pa.int64()),
    )
