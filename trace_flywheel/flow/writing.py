"""The third movement: the text of the chosen rows, streamed once from the run partitions to a dataset version.

Rows are finished (`publish`) and spooled wherever they are read; which of them stand, and what is counted, is decided
in one place and in the order of the rows, so that it never depends on how many processes finish them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.curation.masking import has_placeholder
from trace_flywheel.curation.splits import split_of
from trace_flywheel.flow.cleared import remember
from trace_flywheel.flow.crew import Crew
from trace_flywheel.flow.dataset_rows import Row
from trace_flywheel.flow.pieces import Piece, rows_in
from trace_flywheel.flow.publish import MAX_LAYOUT_BYTES, Finisher, written
from trace_flywheel.flow.row_facts import RowFacts
from trace_flywheel.lake.draft import Draft
from trace_flywheel.lake.shards import Shard
from trace_flywheel.lake.spool import Place, Spools
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.rows import KtoRow, Provenance, SftRow
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.settings import Settings
from trace_flywheel.trainers.columns import column_types, specimen
from trace_flywheel.trainers.layout import Kind, Layout
from trace_flywheel.trainers.registry import layout

BYTES_A_SECOND = 200_000_000
"""Of lines that are copied to their files, about."""
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


class Published(msgspec.Struct):
    """Which rows came through: by frame row the ids of the rows that use it, and the last drop of those without one."""

    row_ids: dict[int, list[str]] = {}
    late: dict[int, Drop] = {}
    kinds: dict[str, int] = {}
    graders: dict[str, set[str]] = {}
    turns: int = 0
    """Assistant turns of SFT rows that are learned or would be but for a placeholder in them."""
    turns_masked: int = 0
    """Those with a placeholder that are not learned."""
    left_out: dict[str, list[str]] = {}
    """By layout the ids of rows that are too large in it."""
    columns: dict[str, dict[str, str]] = {}
    """By layout the types of its columns."""
    about: RowFacts = msgspec.field(default_factory=RowFacts)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the card must know about the layouts."""
        limit = MAX_LAYOUT_BYTES // 1_000_000
        return tuple(
            f"{len(ids)} rows are not in layout {name}: each would be more than {limit} MB there."
            for name, ids in sorted(self.left_out.items())
        )


class Making(msgspec.Struct, frozen=True):
    """A piece of a dataset to be finished and spooled below `folder`."""

    folder: Path
    layouts: tuple[str, ...]
    policy: Policy
    supervise_placeholders: Literal["mask", "keep"]
    piece: Piece


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


def add_rows(
    draft: Draft,
    rows: Iterable[Finished],
    layouts: Sequence[Layout],
    settings: Settings,
    kind: Kind,
    places: Mapping[str, Sequence[int]] | None = None,
) -> Published:
    """Add finished rows to the draft. The same content twice is one row: two tasks may hold one pair.

    `places`: by row id where it stands, once for each time.
    """
    done = Published()
    first: dict[str, Provenance] = {}
    columns: dict[Columns, None] = {}
    for row in rows:
        about = row.provenance
        came: Mapping[str, Place] | Drop | None = row.came
        if about.row_id in first:
            came = _again(about, first[about.row_id])
        else:
            columns[row.columns] = None
            for name in row.left_out:
                done.left_out.setdefault(name, []).append(about.row_id)
        assert came is not None, "content that never came is not there again"
        if isinstance(came, Drop):
            for source in row.sources:
                done.late[source] = came
            continue
        first[about.row_id] = about
        split = split_of(about.task_id, settings.splits, settings.seed)
        draft.add(msgspec.structs.replace(about, split=split), came, (0,) if places is None else places[about.row_id])
        for source in row.sources:
            done.row_ids.setdefault(source, []).append(about.row_id)
        done.about.add(about, row.label)
        done.kinds[about.kind] = done.kinds.get(about.kind, 0) + 1
        versions = done.graders.setdefault(about.grader or "none", set())
        if about.grader_version:
            versions.add(about.grader_version)
        done.turns += row.turns
        done.turns_masked += row.turns_masked
    for number, one in enumerate(layouts):
        # Of a layout without rows those that a row of this kind would have.
        names = {name for of_row in columns for name in of_row[number]}
        names = names or {name for line in written(one, specimen(kind)) for name in line}
        done.columns[one.NAME] = column_types(one.NAME, names)
    return done


def copied(
    crew: Crew[Holdout], policy: Policy, write: Callable[[Shard], str], shards: Sequence[Shard]
) -> Iterator[str]:
    """What `write` gives for every file, written by the crew from lines that went through the last gate."""
    for sha256 in crew.each(write, shards, sum(shard.size for shard in shards) / BYTES_A_SECOND):
        remember(policy, sha256)
        yield sha256


def _again(row: Provenance, first: Provenance) -> Drop:
    evidence = {"row_id": row.row_id, "kept_run_id": first.run_id, "kept_trace_ids": list(first.trace_ids)}
    return Drop(Stage.EXACT_DUPLICATE, "exact_duplicate", evidence, task_id=row.task_id)
