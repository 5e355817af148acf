"""The long columns of the index, read when they are needed and for the rows that need them.

Sketches, shingles and message hashes are most of the index. Decisions look at them late, when few rows are left, so
that a million rollouts fit into memory. Files are read run by run, in the order of the rows.
"""

import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from trace_flywheel.curation.ragged import Ragged
from trace_flywheel.curation.sketch import Spans
from trace_flywheel.flow.ahead import read_files
from trace_flywheel.flow.gathered import gathered
from trace_flywheel.flow.packs import is_pack, path_of, starts_of
from trace_flywheel.lake.sidecar import LakeError, Part, Sidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.index import PERMUTATIONS

MEANWHILE = "a dataset was made"


@dataclass(frozen=True)
class Columns:
    """Where the long columns of every row of the frame lie: `files[file[row]]`, row `at[row]` of it. A file is a part
    of a run, or a pack of small runs."""

    files: tuple[Path, ...]
    file: np.ndarray
    at: np.ndarray

    @classmethod
    def of(cls, lake: Lake, runs: Sequence[Sidecar], frame: pd.DataFrame) -> "Columns":
        """Of a frame of these runs: the entry `position` of `part` is that row of the part's file, or so far behind the
        part's first row in a pack."""
        standing = gathered(lake, runs)
        numbers: dict[Path, int] = {}
        most = 1 + max((_number(part) for run in runs for part in run.parts), default=0)
        number, first = np.zeros((2, len(runs), most), dtype=np.int32)
        for row, run in enumerate(runs):
            place = standing.places.get(run.run_id)
            if place is not None and standing.folder is not None:
                pack = numbers.setdefault(path_of(standing.folder, place.pack), len(numbers))
                for part, start in zip(run.parts, starts_of(run, place), strict=True):
                    number[row, _number(part)], first[row, _number(part)] = pack, start
            else:
                for part in run.parts:
                    number[row, _number(part)] = numbers.setdefault(lake.part_path(run, part), len(numbers))
        run_of = pd.Index([run.run_id for run in runs], dtype=object).get_indexer(
            pd.Index(frame["run_id"], dtype=object)
        )
        parts, positions = frame["part"].to_numpy(), frame["position"].to_numpy(dtype=np.int32)
        return cls(tuple(numbers), number[run_of, parts], first[run_of, parts] + positions)

    def only(self, rows: np.ndarray) -> "Columns":
        return Columns(self.files, self.file[rows], self.at[rows])

    def pruned(self) -> "Columns":
        """The same rows, with no file but theirs: what is sent to another process."""
        used, file = np.unique(self.file, return_inverse=True)
        return Columns(tuple(self.files[n] for n in used.tolist()), file.astype(np.int32), self.at)

    def spans(self, mask: np.ndarray) -> tuple[Spans, Spans]:
        """Prompt and supervised text of the rows under a mask."""
        rows = np.flatnonzero(mask)
        names = ("prompt_sketch", "prompt_shingles", "supervised_sketch", "supervised_shingles")
        sketches = np.empty((2, len(rows), PERMUTATIONS), dtype=np.uint32)
        lists = (_Lists(np.uint32, len(rows)), _Lists(np.uint32, len(rows)))
        done = 0
        for table in self._read(rows, names):
            for side in range(2):
                sketches[side, done : done + len(table)] = _fixed(table[names[2 * side]])
                lists[side].add(*_flat(table[names[2 * side + 1]]))
            done += len(table)
        made = [Spans(sketches[side], *lists[side].done()) for side in range(2)]
        return made[0], made[1]

    def messages(self, mask: np.ndarray) -> tuple[Ragged, Ragged]:
        """`message_hashes` and `message_norms` by row of the frame, empty for rows that are not under the mask."""
        rows, names = np.flatnonzero(mask), ("message_hashes", "message_norms")
        lists = (_Lists(np.int64, len(rows)), _Lists(np.int64, len(rows)))
        for table in self._read(rows, names):
            for name, found in zip(names, lists, strict=True):
                found.add(*_flat(table[name]))
        spread = []
        for found in lists:
            values, offsets = found.done()
            lengths = np.zeros(len(mask), dtype=np.int64)
            lengths[rows] = np.diff(offsets)
            spread.append(Ragged(values, np.append(0, np.cumsum(lengths))))
        return spread[0], spread[1]

    def _read(self, rows: np.ndarray, names: Sequence[str]) -> Iterator[pa.Table]:
        """Columns of the rows, in pieces that follow each other."""
        if not len(rows):
            return
        file, at = self.file[rows], self.at[rows]
        # Rows of one run stand together, and its files have neighbouring numbers: a piece is one stretch of them.
        starts = np.flatnonzero(np.append(True, np.diff(self._run[file]) != 0))
        pieces = zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True)
        # Small runs between large ones take turns with them: their pack is not read for each.
        pack = lru_cache(maxsize=2)(lambda path: read_columns(path, names, MEANWHILE))
        yield from read_files(
            lambda piece: self._piece(file[slice(*piece)], at[slice(*piece)], names, pack), list(pieces)
        )

    @property
    def _run(self) -> np.ndarray:
        """A number for each pack, and for the folder of each other file."""
        numbers: dict[Path, int] = {}
        folders = (path if is_pack(path) else path.parent for path in self.files)
        return np.array([numbers.setdefault(folder, len(numbers)) for folder in folders], dtype=np.int64)

    def _piece(
        self, file: np.ndarray, at: np.ndarray, names: Sequence[str], pack: Callable[[Path], pa.Table]
    ) -> pa.Table:
        numbers, which = np.unique(file, return_inverse=True)
        paths = [self.files[n] for n in numbers.tolist()]
        tables = [pack(path) if is_pack(path) else read_columns(path, names, MEANWHILE) for path in paths]
        bases = np.cumsum([0, *map(len, tables)])[:-1]
        return pa.concat_tables(tables).take(pa.array(bases[which] + at))


def _number(part: Part) -> int:
    return int(part.name[5:-8])


def read_columns(path: Path, names: Sequence[str], meanwhile: str = "the index was read") -> pa.Table:
    """Some columns of an index file. `LakeError` where the run has changed since it was listed."""
    try:
        return pq.ParquetFile(path).read(columns=list(names), use_threads=False)
    except FileNotFoundError:
        if is_pack(path):
            raise LakeError(f"the index was gathered anew while {meanwhile}; run it again") from None
        run = urllib.parse.unquote(path.parent.parent.name)
        raise LakeError(f"run {run} changed while {meanwhile}; run it again") from None


class _Lists:
    """Lists of `n` rows that grow without a second copy of most of them: from the first ones it is told how many values
    all will have, and what is never written to is no memory."""

    def __init__(self, dtype: Any, n: int) -> None:
        self._values, self._used = np.empty(1 << 16, dtype=dtype), 0
        self._offsets, self._n = np.zeros(n + 1, dtype=np.int64), 0

    def add(self, values: np.ndarray, offsets: np.ndarray) -> None:
        end = self._used + len(values)
        rows = len(offsets) - 1
        if end > len(self._values):
            told = end * (len(self._offsets) - 1) // max(self._n + rows, 1)
            before, self._values = self._values, np.empty(max(end, told) * 5 // 4, dtype=self._values.dtype)
            self._values[: self._used] = before[: self._used]
        self._values[self._used : end] = values
        self._offsets[self._n + 1 : self._n + rows + 1] = offsets[1:] + self._used
        self._used, self._n = end, self._n + rows

    def done(self) -> tuple[np.ndarray, np.ndarray]:
        self._values.resize(self._used, refcheck=False)
        return self._values, self._offsets


def _flat(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    array = column.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) and array.num_chunks else array
    if not len(array):
        return np.zeros(0, dtype=np.uint32), np.zeros(1, dtype=np.int64)
    offsets = array.offsets.to_numpy().astype(np.int64)
    return array.values.to_numpy()[offsets[0] : offsets[-1]], offsets - offsets[0]


def _fixed(column: pa.ChunkedArray) -> np.ndarray:
    return np.frombuffer(b"".join(column.to_pylist()), dtype="<u4").reshape(-1, PERMUTATIONS)
