"""Corpora that are published versions. Rows that were made from withdrawn rollouts hold nothing out."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from trace_flywheel.curation.standing import Part
from trace_flywheel.flow.corpus_rows import MAX_LINE_BYTES, Mark, Placed, read_again
from trace_flywheel.flow.corpus_shapes import Conversation, conversation_of
from trace_flywheel.lake import dataset
from trace_flywheel.lake.dataset import Version, lines, shards
from trace_flywheel.records.grading import Withdrawal
from trace_flywheel.settings import DATASET_CORPUS
from trace_flywheel.sources.jsonl import Fault, read_lines

SHARD = 1 << 40
"""A place in a version is shard x SHARD + offset."""


class _RowId(msgspec.Struct):
    row_id: str = ""


class Published:
    """A published version: what it is never changes."""

    def __init__(self, path: Path, version: Version) -> None:
        self.version, self.name = version, path.name
        self.address = f"{DATASET_CORPUS}{version.name}@{version.version}"

    def stamp(self) -> tuple[int, int, int, int]:
        return (0, 0, 0, 0)

    def mark(self, before: Mark | None = None) -> tuple[Mark, bool]:
        return Mark(self.version.version, 0, 0, False, (0, 0, 0, 0)), False

    def identity(self, mark: Mark) -> str:
        return self.address

    def rows(self, after: Mark | None = None) -> Iterator[Placed]:
        number = 0
        for shard, path in enumerate(shards(self.version)):
            rows = read_lines(path, path.parent, MAX_LINE_BYTES)
            for line in rows:
                number += 1
                if isinstance(line, Fault):
                    yield Placed(number, 0, None)
                else:
                    yield Placed(number, shard * SHARD + rows.offset, conversation_of(line.value))

    def again(self, places: Sequence[int]) -> Iterator[Conversation]:
        files = shards(self.version)
        wanted = np.asarray(places)
        for shard in np.unique(wanted // SHARD).tolist():
            with files[shard].open("rb") as file:
                for place in wanted[wanted // SHARD == shard].tolist():
                    file.seek(place % SHARD)
                    yield read_again(file.readline(), self.name)


def without_withdrawn(part: Part, version: Version, withdrawals: Sequence[Withdrawal]) -> Part:
    """A version's rows, those of withdrawn rollouts set aside."""
    from trace_flywheel.curation.withdrawal import Covering  # a table library, for withdrawals alone

    covering = Covering(withdrawals)
    gone = {
        row.row_id
        for row in dataset.provenance(version)
        for run, trace in zip((row.run_id, row.rejected_run_id or row.run_id), row.trace_ids, strict=False)
        if covering.first(run, trace, row.grader, row.grader_version) is not None
    }
    if not gone:
        return part
    of = msgspec.json.Decoder(_RowId)
    numbers = [number for number, line in enumerate(lines(version), 1) if of.decode(line).row_id in gone]
    return replace(part, away=tuple(np.isin(segment.numbers, numbers) for segment in part.segments))
