"""Training data that exists already, as what new rows are held against: all corpora of a dataset or a conversion.

A row that is of no known shape is counted, since a corpus that is silently half read lets duplicates through. Rows of
a published version that were made from withdrawn rollouts hold nothing out.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from trace_flywheel.curation.standing import Corpus, Part
from trace_flywheel.flow.corpus_index import Comparison, index_of, known_identity
from trace_flywheel.flow.corpus_rows import Published, Reader, reader_of
from trace_flywheel.lake import dataset
from trace_flywheel.lake.dataset import Version, lines
from trace_flywheel.records.grading import Withdrawal
from trace_flywheel.settings import DATASET_CORPUS


class Corpora(msgspec.Struct, frozen=True):
    """All corpora together. `skipped` counts the lines that are no row of a known shape, by file name."""

    corpus: Corpus | None
    rows: int
    skipped: dict[str, int]
    identities: tuple[str, ...] = ()
    """What they were: `corpora_digest`."""


class _RowId(msgspec.Struct):
    row_id: str = ""


def corpora_for(name: str, paths: Sequence[Path], mode: str) -> tuple[Path, ...]:
    """The corpora that rows of the dataset `name` are held against: its own versions only in mode `delta`."""
    own = f"{DATASET_CORPUS}{name}@"
    return tuple(path for path in paths if mode == "delta" or not str(path).startswith(own))


def corpora_digest(paths: Sequence[Path], home: Path) -> tuple[str, ...]:
    """`name@sha256` of every file and `dataset:NAME@VERSION` of every version, sorted.

    A file that an index knows by its size and times is not read. `FlywheelError` names a file that cannot be read, or
    a version that is not there.
    """
    return tuple(sorted(_identity(reader_of(path, home), home / "lake") for path in paths))


def _identity(reader: Reader, root: Path) -> str:
    return known_identity(reader, root) or reader.identity(reader.mark()[0])


def open_corpora(
    paths: Sequence[Path],
    home: Path,
    comparison: Comparison,
    *,
    keep: bool = True,
    withdrawals: Sequence[Withdrawal] = (),
    erased: frozenset[str] = frozenset(),
) -> Corpora:
    """The corpora, their indexes brought up to date. `keep`: in the home's lake, else in memory.

    `erased`: exact hashes of rows that count as not there, in any corpus.
    """
    found = []
    for path in paths:
        reader = reader_of(path, home)
        one = index_of(reader, home / "lake" if keep else None, comparison, erased)
        part = _without(one.part, reader.version, withdrawals) if isinstance(reader, Published) else one.part
        found.append((reader.name, one.identity, part, one.skipped))
    found.sort(key=lambda entry: entry[:2])
    skipped = Counter[str]()
    for name, _, _, lost in found:
        skipped[name] += lost
    corpus = Corpus(tuple(part for _, _, part, _ in found))
    identities = tuple(sorted(identity for _, identity, _, _ in found))
    return Corpora(corpus if len(corpus) else None, len(corpus), {k: n for k, n in skipped.items() if n}, identities)


def _without(part: Part, version: Version, withdrawals: Sequence[Withdrawal]) -> Part:
    """A version's rows, those of withdrawn rollouts set aside."""
    gone = {
        row.row_id
        for row in (dataset.provenance(version) if withdrawals else ())
        for run, trace in zip((row.run_id, row.rejected_run_id or row.run_id), row.trace_ids, strict=False)
        if any(one.covers(run, trace, row.grader, row.grader_version) for one in withdrawals)
    }
    if not gone:
        return part
    of = msgspec.json.Decoder(_RowId)
    numbers = [number for number, line in enumerate(lines(version), 1) if of.decode(line).row_id in gone]
    return replace(part, away=tuple(np.isin(segment.numbers, numbers) for segment in part.segments))
