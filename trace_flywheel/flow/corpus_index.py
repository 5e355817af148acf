"""The standing index of one corpus: made when the corpus is first met, read on where it has grown, believed otherwise.

Rows pass the redactor (and, for datasets, the masks) that new rows pass before they are compared, so an index belongs
to one way of doing that: its key. Of an unchanged file only its size and times are looked at; of one that begins as
before the new rows are read; anything else is indexed anew. A damaged index is made again. Without a lake, or where
none can be written, the same segments are made in memory: what is found does not depend on it.
"""

import errno
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from trace_flywheel.curation.segment import Segment, columns_of, halves, merged
from trace_flywheel.curation.standing import Part, Reread
from trace_flywheel.flow.corpus_rows import Mark, Reader
from trace_flywheel.flow.corpus_segments import KEY_DIGITS, Comparison, Counted, reread_rows, segments_of
from trace_flywheel.lake.segments import FORMAT, DamagedError, SegmentFile, Shelf, State, building
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.errors import FlywheelError

GROWTH = 4
"""The last segment is merged into the one before unless that is so many times as large: few segments, few merges."""
SETTLED_NS = 2_000_000_000
"""A file changed so shortly before it was read may change again within one tick of its clock."""


@dataclass(frozen=True)
class CorpusIndex:
    """A corpus that rows can be held against."""

    part: Part
    identity: str
    """As manifests name it."""
    skipped: int
    made: Literal["unchanged", "grown", "made"]


class _Source(msgspec.Struct, frozen=True):
    """What `State.source` keeps."""

    mark: Mark
    looked_ns: int
    """When it was looked at."""


def known_identity(reader: Reader, root: Path) -> str | None:
    """What the corpus is, where an index knows it by size and times alone."""
    folder = Shelf(root, corpus_id(reader), "").folder
    for path in sorted(folder.glob("*/state.json")):
        try:
            state = Shelf(root, folder.name, path.parent.name).state()
        except DamagedError:
            continue
        if state is not None and (source := _as_left(reader, state)) is not None:
            return reader.identity(source.mark)
    return None


def corpus_id(reader: Reader) -> str:
    return content_id(["corpus", reader.address], KEY_DIGITS)


def index_of(
    reader: Reader, root: Path | None, comparison: Comparison, erased: frozenset[str] = frozenset()
) -> CorpusIndex:
    """The index of a corpus. `root`: the lake that keeps it, None: it is made in memory. `erased`: exact hashes of rows
    that are not to be known any more."""
    reread: Reread = partial(reread_rows, reader, comparison)
    if root is not None:
        shelf = Shelf(root, corpus_id(reader), comparison.key)
        try:
            if (found := _unchanged(reader, shelf, reread, erased)) is not None:
                return found
            with building(root):
                # Another process may have been at it meanwhile.
                return _unchanged(reader, shelf, reread, erased) or _indexed(reader, shelf, comparison, reread, erased)
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
    mark, _ = reader.mark()
    count = Counted(reader.rows())
    segments = tuple(segments_of(count, comparison, erased))
    return CorpusIndex(Part(reader.name, segments, reread), reader.identity(mark), count.skipped, "made")


def erase(shelf: Shelf, erased: frozenset[str]) -> int:
    """Write an index anew without the rows that have one of these exact hashes; how many those were."""
    state = shelf.state()
    digest = _digest(erased)
    if state is None or state.erased == digest:
        return 0
    segments = tuple(Segment.of_arrays(shelf.arrays(file)) for file in state.segments)
    files, gone = [], 0
    for file, segment in zip(state.segments, segments, strict=True):
        keep = ~_holds(segment, erased)
        gone += int((~keep).sum())
        if keep.all():
            files.append(file)
        elif keep.any():
            files.append(shelf.write(merged([segment], [keep])))
    shelf.commit(msgspec.structs.replace(state, segments=tuple(files), erased=digest))
    return gone


def _unchanged(reader: Reader, shelf: Shelf, reread: Reread, erased: frozenset[str]) -> CorpusIndex | None:
    try:
        state = shelf.state()
        if state is None or state.erased != _digest(erased) or (source := _as_left(reader, state)) is None:
            return None
        part = Part(reader.name, _opened(shelf, state.segments), reread)
    except DamagedError:
        return None
    return CorpusIndex(part, reader.identity(source.mark), state.skipped, "unchanged")


def _as_left(reader: Reader, state: State) -> _Source | None:
    """What is known of the source where size and times say that it still holds."""
    source = msgspec.convert(state.source, _Source)
    stamp = reader.stamp()
    if stamp != tuple(source.mark.stamp) or (stamp[1] and max(stamp[1:3]) + SETTLED_NS > source.looked_ns):
        return None
    return source


def _indexed(
    reader: Reader, shelf: Shelf, comparison: Comparison, reread: Reread, erased: frozenset[str]
) -> CorpusIndex:
    """Bring an index up to date: from the rows that are new, or from all."""
    try:
        state = shelf.state()
        if state is not None and state.erased != _digest(erased):
            erase(shelf, erased)
            state = shelf.state()
        files = list(state.segments) if state else []
        opened = list(_opened(shelf, files))
    except DamagedError:
        state, files, opened = None, [], []
    before = msgspec.convert(state.source, _Source).mark if state else None
    looked = time.time_ns()
    mark, begins = reader.mark(before)
    same = before is not None and before.sha256 == mark.sha256
    skipped = state.skipped if state else 0
    made: Literal["unchanged", "grown", "made"] = "unchanged" if same else "grown" if begins else "made"
    if not same:
        if not begins:
            before, skipped, files, opened = None, 0, [], []
        count = Counted(reader.rows(before))
        for segment in segments_of(count, comparison, erased):
            files.append(shelf.write(columns_of(segment)))
            opened += _opened(shelf, files[-1:])
            while len(files) > 1 and files[-2].rows < GROWTH * files[-1].rows:
                pair = opened[-2:]
                before_merge = files[-2:]
                files[-2:] = [shelf.write(merged(pair, [np.ones(len(one), dtype=bool) for one in pair]))]
                opened[-2:] = _opened(shelf, files[-1:])
                for file in before_merge:
                    shelf.discard(file, state)
        skipped += count.skipped
        if reader.stamp() != mark.stamp:
            raise FlywheelError(f"{reader.name}: changed while it was read; run it again")
    source = msgspec.to_builtins(_Source(mark, looked))
    shelf.commit(State(FORMAT, reader.address, comparison.key, source, skipped, _digest(erased), tuple(files)))
    return CorpusIndex(Part(reader.name, tuple(opened), reread), reader.identity(mark), skipped, made)


def _opened(shelf: Shelf, files: Iterable[SegmentFile]) -> tuple[Segment, ...]:
    try:
        return tuple(Segment.of_arrays(shelf.arrays(file)) for file in files)
    except KeyError as error:
        raise DamagedError(f"{shelf.folder}: a segment without {error}; the next refresh makes it again") from None


def _holds(segment: Segment, erased: frozenset[str]) -> np.ndarray:
    """The rows that have one of these exact hashes."""
    mask = np.zeros(len(segment), dtype=bool)
    for high, low in halves(sorted(erased)).T.tolist():
        at = np.searchsorted(segment.digests[0], np.uint64(high), "left")
        while at < len(segment) and segment.digests[0, at] == high:
            mask[segment.digest_rows[at]] |= segment.digests[1, at] == low
            at += 1
    return mask


def _digest(erased: frozenset[str]) -> str:
    return content_id(sorted(erased), KEY_DIGITS) if erased else ""


_READ_ONLY = frozenset({errno.EPERM, errno.EACCES, errno.EROFS})
