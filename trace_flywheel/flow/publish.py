"""The third movement: the text of the chosen rows, streamed once from the run partitions to a dataset version.

Every row is finished (masks set, layouts made), held against each trainer's rules, scanned again for secrets and looked
through again for goldens; what fails is dropped here with its reason, whatever the stages before thought.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.curation.masking import has_placeholder
from trace_flywheel.curation.splits import split_of
from trace_flywheel.flow.cleared import Objects, Texts, cleared_by
from trace_flywheel.flow.dataset_rows import Row
from trace_flywheel.flow.row_facts import RowFacts
from trace_flywheel.lake.dataset import CANONICAL
from trace_flywheel.lake.draft import Draft
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.message import Message
from trace_flywheel.records.rows import KtoRow, PreferencePair, PromptRow, Provenance, SftRow
from trace_flywheel.redaction.redact import Redactor
from trace_flywheel.settings import Settings
from trace_flywheel.trainers.columns import column_types, specimen
from trace_flywheel.trainers.layout import Kind, Layout
from trace_flywheel.trainers.registry import layout

MAX_FAULTS = 3
"""Faults of a refused row that its fate repeats."""
MAX_LAYOUT_BYTES = 64_000_000
"""Of one row in one layout. A layout that repeats the prompt for every turn grows with the square of the turns: 3,000
turns of 250 bytes are 0.75 MB as a conversation and 1.1 GB as one line a turn."""


def layouts_for(kind: Kind, names: Sequence[str]) -> tuple[Layout, ...]:
    """The canonical layout and those of `names` that hold rows of this kind, by name."""
    return tuple(one for name in sorted({CANONICAL, *names}) if kind in (one := layout(name)).KINDS)


class Finisher:
    """The last gate. `lines` gives a row in every layout, or the drop of stage `publish` that keeps it out."""

    def __init__(self, layouts: Sequence[Layout], redactor: Redactor, holdout: Holdout) -> None:
        self._layouts, self._cleared, self._holdout = layouts, cleared_by(redactor), holdout
        self.left_out: dict[str, list[str]] = {}
        """By layout the rows that would be larger than `MAX_LAYOUT_BYTES` in it; the canonical data hold them."""
        self.columns: dict[str, set[str]] = {one.NAME: set() for one in layouts}
        """By layout the columns that some row has."""

    def lines(self, row: Row) -> dict[str, list[bytes]] | Drop:
        made: dict[str, list[bytes]] = {}
        texts = Texts() if len(self._layouts) > 1 else None
        for one in self._layouts:
            lines: list[bytes] = []
            size = 0
            clean: Objects = {}
            for w in written(one, row):
                # Most layouts give one line, which repeats nothing but what other layouts have too.
                line, found = self._cleared.line(w, clean, None) if lines else self._cleared.line(w, None, texts)
                size += len(line)
                if size > MAX_LAYOUT_BYTES and one.NAME != CANONICAL:
                    self.left_out.setdefault(one.NAME, []).append(row.row_id)
                    lines.clear()
                    break
                if faults := list(one.validate(w)):
                    return _refused(row, "layout_refused", {"layout": one.NAME, "faults": faults[:MAX_FAULTS]})
                if found:
                    return _refused(row, "finding_after_layout", {"layout": one.NAME, "rules": found})
                lines.append(line)
                self.columns[one.NAME].update(w)
            made[one.NAME] = lines
        for messages in _conversations(row):
            if hit := self._holdout.hits(messages):
                return _refused(row, "golden_after_layout", hit)
        return made

    def column_types(self, kind: Kind) -> dict[str, dict[str, str]]:
        """By layout the types of its columns: of a layout without rows those that a row of this kind would have."""
        found = {}
        for one in self._layouts:
            names = self.columns[one.NAME] or {n for w in written(one, specimen(kind)) for n in w}
            found[one.NAME] = column_types(one.NAME, names)
        return found


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


def write_rows(
    draft: Draft,
    rows: Iterable[tuple[tuple[int, ...], Row]],
    finisher: Finisher,
    settings: Settings,
    kind: Kind,
    places: Mapping[str, Sequence[int]] | None = None,
) -> Published:
    """Finish every row and add it to the draft. The same content twice is one row: two tasks may hold one pair.

    `places`: by row id where it stands, once for each time.
    """
    done = Published(left_out=finisher.left_out)
    first: dict[str, Provenance] = {}
    for sources, row in rows:
        lines = _again(row, first[row.row_id]) if row.row_id in first else finisher.lines(row)
        if isinstance(lines, Drop):
            for source in sources:
                done.late[source] = lines
            continue
        provenance = first[row.row_id] = row.provenance
        split = split_of(provenance.task_id, settings.splits, settings.seed)
        at = (0,) if places is None else places[row.row_id]
        draft.add(msgspec.structs.replace(provenance, split=split), lines, at)
        for source in sources:
            done.row_ids.setdefault(source, []).append(row.row_id)
        done.about.add(provenance, row.label if isinstance(row, KtoRow) else None)
        done.kinds[provenance.kind] = done.kinds.get(provenance.kind, 0) + 1
        versions = done.graders.setdefault(provenance.grader or "none", set())
        if provenance.grader_version:
            versions.add(provenance.grader_version)
        if isinstance(row, SftRow):
            answers = [m for m in row.messages if m.role == "assistant"]
            masked = sum(m.train_on is False and has_placeholder(m) for m in answers)
            done.turns_masked += masked
            done.turns += masked + sum(m.train_on is not False for m in answers)
    done.columns = finisher.column_types(kind)
    return done


def _again(row: Row, first: Provenance) -> Drop:
    evidence = {"row_id": row.row_id, "kept_run_id": first.run_id, "kept_trace_ids": list(first.trace_ids)}
    return Drop(Stage.EXACT_DUPLICATE, "exact_duplicate", evidence, task_id=row.provenance.task_id)


def written(one: Layout, row: Row) -> Iterator[dict[str, Any]]:
    """The rows of a layout that a row becomes."""
    if isinstance(row, SftRow):
        return one.sft_rows(row)
    if isinstance(row, KtoRow):
        return one.kto_rows(row)
    if isinstance(row, PromptRow):
        return one.prompt_rows(row)
    return one.pair_rows(row) if isinstance(row, PreferencePair) else one.rl_rows(row)


def _conversations(row: Row) -> Iterator[tuple[Message, ...]]:
    if isinstance(row, PreferencePair):
        yield (*row.prompt, *row.chosen)
        yield (*row.prompt, *row.rejected)
    elif isinstance(row, KtoRow):
        yield (*row.prompt, *row.completion)
    elif isinstance(row, PromptRow):
        yield row.prompt
    else:
        yield row.messages


def _refused(row: Row, reason: str, evidence: dict[str, Any]) -> Drop:
    return Drop(Stage.PUBLISH, reason, {**evidence, "row_id": row.row_id}, task_id=row.provenance.task_id)
