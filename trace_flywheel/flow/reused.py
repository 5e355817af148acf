"""Rows of a new version whose lines stand in an older one: copied there, not made from their text again.

What a row is made from is its key (`row_keys`); rows whose key was noted of an older version (`lake.lines`) are that
version's, byte for byte. They come as if they had been finished now, in the order in which all rows are made, so that
what is decided over them is the same. Where nothing is noted, or the files are not what they were, every row is made.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress

import msgspec
import numpy as np

from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.dataset_rows import GROUP
from trace_flywheel.flow.finishing import Columns, Finished
from trace_flywheel.flow.funnel import Curated
from trace_flywheel.flow.pieces import Known
from trace_flywheel.flow.renumbered import cut, renumbered
from trace_flywheel.flow.row_keys import BLOCK, KEY, Wanted, shared, wanted
from trace_flywheel.lake.dataset import CANONICAL, Version
from trace_flywheel.lake.draft import Draft
from trace_flywheel.lake.lines import Lines, Noted, is_as_it_was
from trace_flywheel.lake.spool import Place, Places, adopt, standing
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
        # A second gate sees numbers beside texts, and other layouts have them in other places.
        names = [one.NAME for one in layouts]
        self._may_renumber = names == [CANONICAL] and settings.redaction.second_gate == "none"

    def finished(self, curated: Curated, make: Callable[[Curated], Generator[Finished]]) -> Generator[Finished]:
        """The rows that were chosen, in the order in which they are made: those that stand, and what `make` gives of
        the others."""
        asked = wanted(curated)
        lines, at, same = self._standing(asked)
        found = at >= 0
        taken: Iterator[Finished] = iter(())
        if lines is not None:
            others = self._renumbered(lines, at[found & ~same], curated, asked.numbers[found & ~same])
            taken = self._taken(lines, at[found], same[found], iter(others))
        with closing(make(asked.left(curated, found))) as made:
            coming = next(made, None)
            for sources, key, near, stands in _one_by_one(asked, found):
                if stands:
                    row = msgspec.structs.replace(next(taken), sources=sources)
                elif coming is not None and coming.sources == sources:
                    row, coming = coming, next(made, None)
                else:
                    continue
                self._note(key, near, row)
                yield row
            if coming is not None:
                raise AssertionError(f"{self._draft.name}: rows were made in another order than they were asked for")

    def keep(self, version: Version) -> None:
        """Note the rows as those of a version: it was published from this draft."""
        if self._noted is None:
            return
        told = [[sorted(names) for names in columns] for columns in self._columns]
        with suppress(OSError):  # where they find no room the next one is made from its text
            self._noted.keep(self._curation.lake, version, self._shared, told)

    def close(self) -> None:
        if self._noted is not None:
            self._noted.close()

    def _standing(self, asked: Wanted) -> tuple[Lines | None, np.ndarray, np.ndarray]:
        """What was noted, by row where in it, and whether it is the same to its numbers; nothing where a file is not
        what it was."""
        nothing = None, np.full(len(asked.keys), -1, dtype=np.int64), np.zeros(len(asked.keys), dtype=bool)
        lines = Lines.of(self._curation.lake, self._source, self._shared)
        if lines is None or not ((at := lines.find(asked.near)) >= 0).any():
            return nothing
        same = (at >= 0) & (lines.keys[at] == asked.keys)
        if not self._may_renumber:
            at[~same] = -1
        files = [file for of_layout in lines.files.values() for file in of_layout]
        seconds = sum(file.size for file in files) / BYTES_A_SECOND
        unchanged = all(self._curation.crew.each(is_as_it_was, files, seconds))
        return (lines, at, same) if unchanged and self._adopted(lines) else nothing

    def _adopted(self, lines: Lines) -> bool:
        """Whether the draft has its files at hand: not every file system knows links."""
        try:
            for layout, files in lines.files.items():
                for number, file in enumerate(files):
                    adopt(self._draft.folder, layout, number, file.path)
        except OSError:
            return False
        return True

    def _renumbered(self, lines: Lines, at: np.ndarray, curated: Curated, rows: np.ndarray) -> Places:
        """Where lines stand that were written with other numbers."""
        made = Places()
        if len(at):
            places = (standing(places[CANONICAL]) for _, places in lines.rows(at))
            groups = Known(curated.groups, GROUP).each(rows)
            seconds = sum(file.size for file in lines.files[CANONICAL]) / BYTES_A_SECOND
            for of_task in self._curation.crew.over(renumbered, cut(self._draft.folder, places, groups), seconds):
                for place in of_task:
                    made.add(place)
        return made

    def _taken(self, lines: Lines, at: np.ndarray, same: np.ndarray, others: Iterator[Place]) -> Iterator[Finished]:
        """Rows as they were finished, their lines where they stand, or where they were written with other numbers."""
        columns: list[Columns] = [tuple(map(frozenset, of_row)) for of_row in lines.told]
        for (account, places), as_it_was in zip(lines.rows(at), same.tolist(), strict=True):
            told = _decode(account)
            stand = {name: standing(place) for name, place in places.items()}
            came = stand if as_it_was else {CANONICAL: next(others)}
            rest = told.left_out, told.label, told.turns, told.turns_masked
            yield Finished((), told.provenance, came, columns[told.columns], *rest)

    def _note(self, key: bytes, near: bytes, row: Finished) -> None:
        """What came through is noted; what did not is made again, and its reason with it."""
        if self._noted is None or row.came is None or isinstance(row.came, Drop):
            return
        columns = self._columns.setdefault(row.columns, len(self._columns))
        account = _Account(row.provenance, columns, row.left_out, row.label, row.turns, row.turns_masked)
        self._noted.add(key, near, row.provenance.row_id, _encode(account), row.came)


def _one_by_one(asked: Wanted, found: np.ndarray) -> Iterator[tuple[tuple[int, ...], bytes, bytes, bool]]:
    """Of each row its sources, its keys, and whether it was found. As Python's objects few are there at a time."""
    for at in range(0, len(found), BLOCK):
        some = slice(at, at + BLOCK)
        sources = map(tuple, asked.sources[some].tolist())
        yield from zip(sources, _each(asked.keys[some]), _each(asked.near[some]), found[some].tolist(), strict=True)


def _each(keys: np.ndarray) -> Iterator[bytes]:
    """Keys one by one; as items of the array they would lose their last zeros."""
    data = keys.tobytes()
    return (data[at : at + KEY] for at in range(0, len(data), KEY))
