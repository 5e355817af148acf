"""Rows put through the last gate (`publish`) and spooled, wherever they are read.

What comes back holds no text. Which rows stand, and what is counted, is not decided here (`writing`).
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.curation.masking import has_placeholder
from trace_flywheel.flow.dataset_rows import Row
from trace_flywheel.flow.piece import Piece, rows_in
from trace_flywheel.flow.publish import Finisher
from trace_flywheel.lake.spool import Place, Spools
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rows import KtoRow, Provenance, SftRow
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.trainers.registry import layout

Columns = tuple[frozenset[str], ...]
"""Of a row, by layout."""


class Finished(msgspec.Struct, frozen=True):
    """A row without its text: what became of it at the last gate."""

    sources: tuple[int, ...]
    """The frame rows that it is made from."""
    provenance: Provenance
    came: Mapping[str, Place] | Drop | None
    """Where it stands by layout, or why it does not; None where the rows before it hold the same content."""
    columns: Columns = ()
    left_out: tuple[str, ...] = ()
    """Layouts in which it is too large."""
    label: bool | None = None
    turns: int = 0
    turns_masked: int = 0


class Making(msgspec.Struct, frozen=True):
    """A piece of a dataset to be finished and spooled below `folder`."""

    folder: Path
    layouts: tuple[str, ...]
    policy: Policy
    supervise_placeholders: Literal["mask", "keep"]
    piece: Piece


def ready(_: Holdout, policy: Policy) -> None:
    """Have what the first piece would wait for: the rules of the last gate take a quarter of a second."""
    redactor(policy)


def finish_piece(holdout: Holdout, task: Making) -> list[Finished]:
    """What becomes of the rows of a piece, wherever it is worked on."""
    finisher = Finisher([layout(name) for name in task.layouts], redactor(task.policy), holdout)
    return list(finish(rows_in(task.piece, task.supervise_placeholders), finisher, task.folder))


def finish(rows: Iterable[tuple[tuple[int, ...], Row]], finisher: Finisher, folder: Path) -> Iterator[Finished]:
    """Put every row through the last gate and spool its lines; those that came before are not put through again."""
    came: set[str] = set()
    seen: dict[Columns, Columns] = {}
    with Spools(folder) as spools:
        for sources, row in rows:
            if row.row_id in came:
                yield Finished(sources, row.provenance, None)
                continue
            lines = finisher.lines(row)
            columns = tuple(map(frozenset, finisher.columns.values()))
            columns = seen.setdefault(columns, columns)
            left_out = tuple(sorted(finisher.left_out))
            if isinstance(lines, Drop):
                yield Finished(sources, row.provenance, lines, columns, left_out)
                continue
            came.add(row.row_id)
            places = {name: spools.add(name, of_layout) for name, of_layout in lines.items()}
            turns = masked = 0
            if isinstance(row, SftRow):
                answers = [m for m in row.messages if m.role == "assistant"]
                masked = sum(m.train_on is False and has_placeholder(m) for m in answers)
                turns = masked + sum(m.train_on is not False for m in answers)
            label = row.label if isinstance(row, KtoRow) else None
            yield Finished(sources, row.provenance, places, columns, left_out, label, turns, masked)
