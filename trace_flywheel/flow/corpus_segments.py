"""How rows of a corpus become segments of its index: redacted and masked as new rows are, hashed and sketched.

Text is in memory for a few rows at a time; what waits for its segment is numbers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np

from trace_flywheel.curation.masking import SupervisedRollout, supervised
from trace_flywheel.curation.message_hashes import exact_hash
from trace_flywheel.curation.segment import LAYOUT, Segment, described
from trace_flywheel.curation.sketch import Spans, prompt_text, supervised_text
from trace_flywheel.flow.corpus_rows import Placed, Reader
from trace_flywheel.flow.corpus_shapes import SHAPES, Conversation
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.index import INDEX_VERSION
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.redaction.policy import Policy, policy_named
from trace_flywheel.redaction.redact import redactor

TOGETHER = 16
"""Rows whose text is in memory together: parsed they are ten times their bytes, and sketching gains nothing by more."""
SEGMENT_ROWS, SEGMENT_SHINGLES = 50_000, 16_000_000
"""Rows of a new segment, and their shingles (64 MB): what making an index holds in memory."""
KEY_DIGITS = 16


@dataclass(frozen=True)
class Comparison:
    """How rows of corpora are made comparable: what new rows passed before they came here."""

    policy: Policy | str | None = "standard"
    """None: nothing is redacted."""
    masks: Literal["mask", "keep"] | None = None
    """Turns with placeholders as datasets treat them; None: as they are written."""

    @property
    def key(self) -> str:
        """Equal keys are equal hashes and sketches."""
        rules = None if self.policy is None else policy_named(self.policy).digest()
        return content_id([LAYOUT, INDEX_VERSION, SHAPES, rules, self.masks], KEY_DIGITS)

    def of(self, conversation: Conversation) -> Conversation:
        """A row as it is compared. What the redactor refuses is compared as it is: no new row with that text comes."""
        messages, tools = conversation
        if self.policy is None and self.masks is None:
            return conversation
        rollout = Rollout("corpus", "row", "task", Source("corpus", "", ""), messages, tools)
        if self.policy is not None:
            redacted = redactor(self.policy).redact(rollout)
            rollout = redacted if isinstance(redacted, Rollout) else rollout
        if self.masks is not None:
            view = supervised(rollout, self.masks)
            return view.messages if isinstance(view, SupervisedRollout) else rollout.messages, rollout.tools
        return rollout.messages, rollout.tools


class Counted:
    """Rows of a known shape; the others are counted."""

    def __init__(self, rows: Iterator[Placed]) -> None:
        self._rows, self.skipped = rows, 0

    def __iter__(self) -> Iterator[tuple[int, int, Conversation]]:
        for number, place, conversation in self._rows:
            if conversation is None:
                self.skipped += 1
            else:
                yield number, place, conversation


def segments_of(
    rows: Iterable[tuple[int, int, Conversation]], comparison: Comparison, erased: frozenset[str]
) -> Iterator[Segment]:
    """Segments of rows as they come."""
    pending = _Pending()
    waiting = iter(rows)
    while batch := list(islice(waiting, TOGETHER)):
        compared = [comparison.of(conversation) for _, _, conversation in batch]
        hashes = [exact_hash(messages, tools) for messages, tools in compared]
        left = [i for i, digest in enumerate(hashes) if digest not in erased]
        pending.numbers += [batch[i][0] for i in left]
        pending.places += [batch[i][1] for i in left]
        pending.hashes += [hashes[i] for i in left]
        pending.prompts.append(Spans.of_texts(prompt_text(compared[i][0]) for i in left))
        pending.answers.append(Spans.of_texts(supervised_text(compared[i][0]) for i in left))
        if pending.full:
            yield pending.segment()
            pending = _Pending()
    if pending.numbers:
        yield pending.segment()


class _Pending:
    """Rows that wait for their segment."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.places: list[int] = []
        self.hashes: list[str] = []
        self.prompts: list[Spans] = []
        self.answers: list[Spans] = []

    @property
    def full(self) -> bool:
        shingles = sum(len(spans.values) for spans in (*self.prompts, *self.answers))
        return len(self.numbers) >= SEGMENT_ROWS or shingles >= SEGMENT_SHINGLES

    def segment(self) -> Segment:
        prompt, answers = Spans.joined(self.prompts), Spans.joined(self.answers)
        return described(self.numbers, self.places, self.hashes, prompt, answers)


def reread_rows(reader: Reader, comparison: Comparison, places: np.ndarray) -> tuple[Spans, Spans]:
    """Prompt and supervised text of rows whose shingles the index left out, from the corpus again."""
    compared = [comparison.of(conversation)[0] for conversation in reader.again(places.tolist())]
    return Spans.of_texts(map(prompt_text, compared)), Spans.of_texts(map(supervised_text, compared))
