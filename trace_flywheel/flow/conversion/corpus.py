"""`convert --dedup-against`: rows that training data which exists already holds, word for word or nearly, stay out.

Compared is the row as it would be written, with what the corpus reader finds in it, so that a file is always a
duplicate of itself; rows of the corpus pass the redactor that the new ones passed. Rows come in batches. Where the
home has a lake the corpora's indexes are kept there; else they are made in memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from trace_flywheel.curation.corpus_match import equal_rows, near_rows
from trace_flywheel.curation.message_hashes import exact_hash
from trace_flywheel.curation.sketch import Spans, prompt_text, supervised_text
from trace_flywheel.curation.standing import Corpus
from trace_flywheel.flow.conversion.rollout import Outcome, Refusal
from trace_flywheel.flow.corpora import open_corpora
from trace_flywheel.flow.corpus_segments import Comparison
from trace_flywheel.flow.corpus_shapes import conversation_of
from trace_flywheel.flow.validate import has_calls
from trace_flywheel.lake.purged import erased_rows
from trace_flywheel.lake.sidecar import check_format
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Stage
from trace_flywheel.redaction.policy import Policy

BATCH_ROWS = 2_000
BATCH_BYTES = 1_000_000


class Existing:
    """The corpora of one conversion. `FlywheelError` for one that cannot be read or holds no row at all."""

    def __init__(
        self, paths: Sequence[Path], home: Path, threshold: float, policy: Policy | str | None, keep: bool
    ) -> None:
        keep = keep and (home / "lake").is_dir()
        found = open_corpora(paths, home, Comparison(policy), keep=keep, erased=_erased(home))
        self.digests = found.identities
        self.skipped = found.skipped
        """Lines of no known shape, by file."""
        if found.corpus is None:
            names = ", ".join(map(str, paths))
            raise FlywheelError(f"{names}: no row of messages, or of prompt and completion, to compare with")
        self._corpus: Corpus = found.corpus
        self._threshold = threshold

    def without(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """The outcomes, in their order, without the rows that the corpora hold; each lost row is a refusal."""
        batch: list[Outcome] = []
        rows = size = 0
        for outcome in outcomes:
            batch.append(outcome)
            rows += len(outcome.rows)
            size += sum(map(len, outcome.rows))
            if rows >= BATCH_ROWS or size >= BATCH_BYTES:
                yield from self._of_batch(batch)
                batch, rows, size = [], 0, 0
        yield from self._of_batch(batch)

    def _of_batch(self, batch: Sequence[Outcome]) -> Iterator[Outcome]:
        parsed = [[orjson.loads(row) for row in outcome.rows] for outcome in batch]
        lost = self._duplicates([row for rows in parsed for row in rows])
        position = 0
        for outcome, rows in zip(batch, parsed, strict=True):
            here = [(n, lost[position + n]) for n in range(len(rows)) if position + n in lost]
            position += len(rows)
            if here:
                _leave_out(outcome, rows, dict(here))
            yield outcome

    def _duplicates(self, rows: Sequence[dict[str, Any]]) -> dict[int, Refusal]:
        """By position, the rows that the corpora hold."""
        if not rows:
            return {}
        read = [_conversation(row) for row in rows]
        equal = equal_rows([exact_hash(messages, tools) for messages, tools in read], self._corpus)
        left = [at for at in range(len(read)) if at not in equal]
        prompts = Spans.of_texts(prompt_text(read[at][0]) for at in left)
        answers = Spans.of_texts(supervised_text(read[at][0]) for at in left)
        near = near_rows(prompts, answers, self._corpus, self._threshold)
        lost = {at: Refusal(Stage.EXACT_DUPLICATE, "corpus_exact_duplicate", told) for at, told in equal.items()}
        return lost | {
            left[at]: Refusal(Stage.NEAR_DUPLICATE, "corpus_near_duplicate", told) for at, told in near.items()
        }


def _erased(home: Path) -> frozenset[str]:
    check_format(home / "lake")
    return erased_rows(home / "lake")


def _conversation(row: dict[str, Any]) -> Any:
    read = conversation_of(row)
    if read is None:
        raise FlywheelError("--dedup-against: rows of this layout hold no messages to compare; nothing written")
    return read


def _leave_out(outcome: Outcome, rows: Sequence[dict[str, Any]], lost: dict[int, Refusal]) -> None:
    kept = [n for n in range(len(rows)) if n not in lost]
    outcome.rows = [outcome.rows[n] for n in kept]
    outcome.rows_with_calls = sum(has_calls(rows[n]) for n in kept)
    told = [
        Refusal(refusal.stage, refusal.reason, refusal.evidence, rows[n].get("exchange_index"))
        for n, refusal in lost.items()
    ]
    if not kept:
        outcome.refusal = told.pop(0)
    outcome.refused += told
