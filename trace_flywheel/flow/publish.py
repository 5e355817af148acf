"""The last gate of the third movement, in which the text of the chosen rows goes from the run partitions to a dataset
version.

Every row is finished (masks set, layouts made), held against each trainer's rules, scanned again for secrets and looked
through again for goldens; what fails is dropped here with its reason, whatever the stages before thought.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow.cleared import Cleared, Objects
from trace_flywheel.flow.dataset_rows import Row
from trace_flywheel.lake.dataset import CANONICAL
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.message import Message
from trace_flywheel.records.rows import KtoRow, PreferencePair, PromptRow, RlRow, SftRow
from trace_flywheel.redaction.redact import Redactor
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
    """The last gate. `lines` gives a row in every layout, or the drop of stage `publish` that keeps it out; the other
    fields are about the row it was given last."""

    def __init__(self, layouts: Sequence[Layout], redactor: Redactor, holdout: Holdout) -> None:
        self._layouts, self._cleared, self._holdout = layouts, Cleared(redactor), holdout
        self.left_out: set[str] = set()
        """Layouts in which the row would be larger than `MAX_LAYOUT_BYTES`; the canonical data hold it."""
        self.columns: dict[str, set[str]] = {one.NAME: set() for one in layouts}
        """By layout the columns of the row."""

    def lines(self, row: Row) -> dict[str, list[bytes]] | Drop:
        self.left_out.clear()
        for columns in self.columns.values():
            columns.clear()
        made: dict[str, list[bytes]] = {}
        said = row.said if isinstance(row, RlRow | KtoRow) else None
        conversations = list(_conversations(row))
        texts = self._cleared.texts(said, conversations[0])
        for one in self._layouts:
            lines: list[bytes] = []
            size = 0
            clean: Objects = {}
            for w in written(one, row):
                # Most layouts give one line, which repeats nothing but what other layouts have too.
                line, found = self._cleared.line(w, clean, None) if lines else self._cleared.line(w, None, texts)
                size += len(line)
                if size > MAX_LAYOUT_BYTES and one.NAME != CANONICAL:
                    self.left_out.add(one.NAME)
                    lines.clear()
                    break
                if faults := list(one.validate(w)):
                    return _refused(row, "layout_refused", {"layout": one.NAME, "faults": faults[:MAX_FAULTS]})
                if found:
                    return _refused(row, "finding_after_layout", {"layout": one.NAME, "rules": found})
                lines.append(line)
                self.columns[one.NAME].update(w)
            made[one.NAME] = lines
        self._cleared.remember(said, texts, conversations[0])
        for messages in conversations:
            if hit := self._holdout.hits(messages):
                return _refused(row, "golden_after_layout", hit)
        return made


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
