"""Training data that exists already, as what new rows are held against: all corpora of a dataset or a conversion.

A row that is of no known shape is counted, since a corpus that is silently half read lets duplicates through. Rows of
a published version that were made from withdrawn rollouts hold nothing out.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trace_flywheel.curation.standing import Corpus
from trace_flywheel.flow.corpus_files import JsonLines
from trace_flywheel.flow.corpus_index import index_of, known_identity
from trace_flywheel.flow.corpus_rows import Reader
from trace_flywheel.flow.corpus_segments import Comparison
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.grading import Withdrawal
from trace_flywheel.settings import DATASET_CORPUS


class Corpora(msgspec.Struct, frozen=True):
    """All corpora together. `skipped` counts the lines that are no row of a known shape, by file name."""

    corpus: Corpus | None
    rows: int
    skipped: dict[str, int]
    identities: tuple[str, ...] = ()
    """What they were: `corpora_digest`."""


def reader_of(path: Path, home: Path) -> Reader:
    """The reader of one entry of `corpora`. `FlywheelError` names a version that is not there."""
    address = str(path)
    if address.startswith(DATASET_CORPUS):
        name, _, version = address.removeprefix(DATASET_CORPUS).partition("@")
        if not version:
            raise FlywheelError(
                f"corpora: {address} names no version; `flywheel datasets {name}` lists them (the newest would change "
                "with every refresh)"
            )
        # tables and versions are imported for corpora of their kind alone
        from trace_flywheel.flow.corpus_versions import Published
        from trace_flywheel.lake.dataset import find_version

        return Published(path, find_version(home, f"{name}@{version}"))
    if path.suffix == ".parquet":
        from trace_flywheel.flow.corpus_tables import Table

        return Table(path)
    return JsonLines(path)


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
        part = one.part
        if withdrawals and str(path).startswith(DATASET_CORPUS):
            from trace_flywheel.flow.corpus_versions import Published, without_withdrawn

            assert isinstance(reader, Published)
            part = without_withdrawn(part, reader.version, withdrawals)
        found.append((reader.name, one.identity, part, one.skipped))
    found.sort(key=lambda entry: entry[:2])
    skipped = Counter[str]()
    for name, _, _, lost in found:
        skipped[name] += lost
    corpus = Corpus(tuple(part for _, _, part, _ in found))
    identities = tuple(sorted(identity for _, identity, _, _ in found))
    return Corpora(corpus if len(corpus) else None, len(corpus), {k: n for k, n in skipped.items() if n}, identities)
