"""Rows of a new version whose lines stand in an older one: copied there, not made from their text again.

What a row is made from is its key (`row_keys`); rows whose key was noted of an older version (`lake.lines`) are that
version's, byte for byte. They come as if they had been finished now, in the order in which all rows are made, so that
what is decided over them is the same. Where nothing is noted, or the files are not what they were, every row is made.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing

import msgspec
import numpy as np

from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.finishing import Columns, Finished
from trace_flywheel.flow.funnel import Curated
from trace_flywheel.flow.row_keys import KEY, Wanted, shared, wanted
from trace_flywheel.lake.dataset import Version
from trace_flywheel.lake.draft import Draft
from trace_flywheel.lake.lines import Lines, Noted, is_as_it_was
from trace_flywheel.lake.spool import adopt, standing
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rows import Provenance
from trace_flywheel.settings import Settings
from trace_flywheel.trainers.layout import Kind, Layout

BYTES_A_SECOND = 500_000_000
"""Of files that are held against their digests, about."""


class _Account(msgspec.Struct, array_like=True, frozen=True):
    """What is said of a finished row, beside where it stands."""

    provenance: Provenance
    columns: int
    left_out: tuple[str, ...]
    label: bool | None
    turns: int
    turns_masked: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Account).decode


class Reused:
    """Rows of one draft that older lines are good for, and what is noted of its rows for the next one.

    `source`: the dataset whose lines are taken, where that is another one; its rows are the same, and nothing is noted.
    """

    def __init__(
        self,
        draft: Draft,
        curation: Curation,
        kind: Kind,
        layouts: Sequence[Layout],
        settings: Settings,
        source: str | None = None,
    ) -> None:
        self._draft, self._curation, self._source = draft, curation, source or draft.name
        self._shared = shared(kind, layouts, settings, curation.holdout)
        self._noted = Noted(draft.folder, [one.NAME for one in layouts]) if source is None else None
        self._columns: dict[Columns, int] = {}

    def finished(self, curated: Curated, make: Callable[[Curated], Generator[Finished]]) -> Generator[Finished]:
        """The rows that were chosen, in the order in which they are made: those that stand, and what `make` gives of
        the others."""
        asked = wanted(curated)
        lines, at = self._standing(asked)
        found = at >= 0
        taken = iter(()) if lines is None else self._taken(lines, at[found])
        with closing(make(asked.left(curated, found))) as made:
            coming = next(made, None)
            for sources, key, stands in zip(asked.sources.tolist(), _each(asked.keys), found.tolist(), strict=True):
                if stands:
                    row = msgspec.structs.replace(next(taken), sources=tuple(sources))
                elif coming is not None and coming.sources == tuple(sources):
                    row, coming = coming, next(made, None)
                else:
                    continue
                self._note(key, row)
                yield row
            if coming is not None:
                raise AssertionError(f"{self._draft.name}: rows were made in another order than they were asked for")

    def keep(self, version: Version) -> None:
        """Note the rows as those of a version: it was published from this draft."""
        if self._noted is not None:
            told = [[sorted(names) for names in columns] for columns in self._columns]
            self._noted.keep(self._curation.lake, version, self._shared, told)

    def _standing(self, asked: Wanted) -> tuple[Lines | None, np.ndarray]:
        """What was noted, and by row where in it; nothing where a file is not what it was."""
        nothing = None, np.full(len(asked.keys), -1, dtype=np.int64)
        lines = Lines.of(self._curation.lake, self._source, self._shared)
        if lines is None or not ((at := lines.find(asked.keys)) >= 0).any():
            return nothing
        files = [file for of_layout in lines.files.values() for file in of_layout]
        seconds = sum(file.size for file in files) / BYTES_A_SECOND
        return (lines, at) if all(self._curation.crew.each(is_as_it_was, files, seconds)) else nothing

    def _taken(self, lines: Lines, at: np.ndarray) -> Iterator[Finished]:
        """Rows as they were finished, their lines where they stand."""
        for layout, files in lines.files.items():
            for number, file in enumerate(files):
                adopt(self._draft.folder, layout, number, file.path)
        columns: list[Columns] = [tuple(map(frozenset, of_row)) for of_row in lines.told]
        for account, places in lines.rows(at):
            told = _decode(account)
            came = {name: standing(place) for name, place in places.items()}
            rest = told.left_out, told.label, told.turns, told.turns_masked
            yield Finished((), told.provenance, came, columns[told.columns], *rest)

    def _note(self, key: bytes, row: Finished) -> None:
        """What came through is noted; what did not is made again, and its reason with it."""
        if self._noted is None or row.came is None or isinstance(row.came, Drop):
            return
        columns = self._columns.setdefault(row.columns, len(self._columns))
        account = _Account(row.provenance, columns, row.left_out, row.label, row.turns, row.turns_masked)
        self._noted.add(key, row.provenance.row_id, _encode(account), row.came)


def _each(keys: np.ndarray) -> Iterator[bytes]:
    """Keys one by one; as items of the array they would lose their last zeros."""
    data = keys.tobytes()
    return (data[at : at + KEY] for at in range(0, len(data), KEY))
