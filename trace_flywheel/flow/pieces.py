"""The rows of a dataset cut into pieces of work.

Pieces are cut by the texts alone, in the order of runs, so that what comes of them never depends on who works on them.
A pair needs two texts that may stand anywhere: all pairs, of which a task gives few, are one piece.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from trace_flywheel.flow.dataset_rows import GROUP, RATES, Row
from trace_flywheel.flow.funnel import Curated
from trace_flywheel.flow.piece import Piece, rows_in
from trace_flywheel.flow.reading import Reading
from trace_flywheel.flow.texts import readings
from trace_flywheel.lake.store import Lake
from trace_flywheel.settings import Settings

PIECE_CHARS = 4_000_000
"""Of text from which a piece is large enough: under a second of work. It ends with a part; larger parts are cut."""
PART_CHARS = 20_000
"""Of text that is worked on in the 2.5 ms in which a part is opened: what many small parts are cut by."""

BLOCK = 4_096
"""Rows of a table that stand as Python's objects at a time."""


def pieces(lake: Lake, curated: Curated) -> Iterator[Piece]:
    """The work, in order. Raises `LakeError` when a run was ingested anew since the index was read."""
    if curated.pairs is not None:
        table = curated.pairs.table.to_dict("records")
        yield Piece("pair", tuple(readings(lake, curated.index, curated.kept)), pairs=tuple(table))
        return
    known = Known(*{"rl": (curated.groups, GROUP), "prompt": (curated.rates, RATES)}.get(curated.kind, (None, ())))
    piece: list[Reading] = []
    chars = 0
    sizes = curated.index.frame["n_chars"].to_numpy()
    for reading in readings(lake, curated.index, curated.kept):
        for cut in _cut(reading, sizes):
            piece.append(cut)
            chars += PART_CHARS + int(sizes[list(cut.rows.values())].sum())
            if chars >= PIECE_CHARS:
                yield Piece(curated.kind, tuple(piece), known.of(piece))
                piece, chars = [], 0
    if piece:
        yield Piece(curated.kind, tuple(piece), known.of(piece))


def rows_of(lake: Lake, curated: Curated, settings: Settings) -> Iterator[tuple[tuple[int, ...], Row]]:
    """(the frame rows it is made from, row) of everything that was chosen."""
    for piece in pieces(lake, curated):
        yield from rows_in(piece, settings.redaction.supervise_placeholders)


def _cut(reading: Reading, sizes: Any) -> Iterator[Reading]:
    """A reading by itself, or of a large part several."""
    rows: dict[int, int] = {}
    chars = 0
    for position in sorted(reading.rows):
        row = reading.rows[position]
        if rows and chars + sizes[row] > PIECE_CHARS:
            yield reading._replace(rows=rows)
            rows, chars = {}, 0
        rows[position] = row
        chars += int(sizes[row])
    yield reading._replace(rows=rows)


class Known:
    """Columns of a table by row, where there is one: pandas takes 0.1 ms for a row that it gives as a dictionary."""

    def __init__(self, table: pd.DataFrame | None, names: Sequence[str]) -> None:
        self._columns = {} if table is None else {name: table[name] for name in names}

    def of(self, piece: Sequence[Reading]) -> dict[int, dict[str, Any]]:
        """What stands there of the rows that are read."""
        rows = [row for reading in piece for row in reading.rows.values()] if self._columns else []
        return dict(zip(rows, self.each(np.array(rows, dtype=np.int64)), strict=True))

    def each(self, rows: np.ndarray) -> Iterator[dict[str, Any]]:
        """What stands there of each row."""
        for at in range(0, len(rows), BLOCK):
            some = rows[at : at + BLOCK]
            values = zip(*(column.iloc[some].to_numpy().tolist() for column in self._columns.values()), strict=True)
            yield from (dict(zip(self._columns, of_row, strict=True)) for of_row in values)
