"""The third movement: the text of the chosen rows, streamed once from the run partitions to a dataset version.

Rows are finished and spooled wherever they are read (`finishing`); which of them stand, and what is counted, is decided
in one place and in the order of the rows, so that it never depends on how many processes finish them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.curation.splits import split_of
from trace_flywheel.flow.cleared import remember
from trace_flywheel.flow.crew import Crew
from trace_flywheel.flow.finishing import Columns, Finished
from trace_flywheel.flow.publish import MAX_LAYOUT_BYTES, written
from trace_flywheel.flow.row_facts import RowFacts
from trace_flywheel.flow.uses import Uses
from trace_flywheel.lake.draft import Draft
from trace_flywheel.lake.shards import Shard
from trace_flywheel.lake.spool import Place
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.rows import Provenance
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.settings import Settings
from trace_flywheel.trainers.columns import column_types, specimen
from trace_flywheel.trainers.layout import Kind, Layout

BYTES_A_SECOND = 200_000_000
"""Of lines that are copied to their files, about."""


class Published(msgspec.Struct):
    """Which rows came through, and by frame row the last drop of those without one."""

    uses: Uses
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
    done = Published(Uses(draft.numbers))
    columns: dict[Columns, None] = {}
    for row in rows:
        about = row.provenance
        came: Mapping[str, Place] | Drop | None = row.came
        if (first := draft.numbers.get(about.row_id)) is not None:
            came = _again(about, draft.origins[first])
        else:
            columns[row.columns] = None
            for name in row.left_out:
                done.left_out.setdefault(name, []).append(about.row_id)
        assert came is not None, "content that never came is not there again"
        if isinstance(came, Drop):
            for source in row.sources:
                done.late[source] = came
            continue
        split = split_of(about.task_id, settings.splits, settings.seed)
        draft.add(msgspec.structs.replace(about, split=split), came, (0,) if places is None else places[about.row_id])
        done.uses.add(row.sources, len(draft.numbers) - 1)
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
