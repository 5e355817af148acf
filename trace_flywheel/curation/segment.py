"""A segment: what a standing index knows of some rows, as flat arrays that lie in a file or in memory alike.

Of each row it holds an exact hash, of prompt and supervised text each the LSH band keys, one byte of every sketch value
and the number of shingles. Short texts keep their shingles too, so that exact Jaccard needs no text; how short depends
on the room (`ROOM` bytes a row, at least `LEAST`), and of longer ones the text is read again where its row has become
a candidate. A decision is the same either way.

Arrays of n rows (`side` 0 is the prompt, 1 the supervised text):

    numbers (n) u4         the row's number in its corpus       places (n) i8        where its text begins
    digests (2, n) u8      halves of exact hashes, sorted       digest_rows (n) u4   their rows
    keys (side, band, n) u4  band keys, each band sorted        key_rows             their rows, ascending in a bucket
    signs (side, n, 128) u1  low byte of each sketch value      sizes (side, n) u4   shingles of the text
    offsets (side, n + 1) i8, values u4                         shingles of the texts that keep them

A segment is never changed: `merged` makes one of several, without the rows that are to go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from trace_flywheel.curation.bands import BANDS, short_keys
from trace_flywheel.curation.sketch import Spans
from trace_flywheel.records.index import PERMUTATIONS

LAYOUT = 1
"""Goes up when the arrays of the same rows differ."""
ROOM = 320
"""Bytes a row for shingles: with the other 570 a million rows stay below 0.9 GB."""
LEAST = 64_000_000
"""Bytes for shingles that any segment may use: a corpus of some thousand rows keeps all of them."""
BATCH = 1 << 16
Column = tuple[str, str, tuple[int, ...], Iterable[np.ndarray]]
"""Name, type, shape and content of an array, the content in pieces: a file is written without holding the array."""


@dataclass(frozen=True)
class Segment:
    numbers: np.ndarray
    places: np.ndarray
    digests: np.ndarray
    digest_rows: np.ndarray
    keys: np.ndarray
    key_rows: np.ndarray
    signs: np.ndarray
    sizes: np.ndarray
    offsets: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "Segment":
        """From arrays that were written before. `KeyError` where one is missing."""
        return cls(**{field.name: arrays[field.name] for field in fields(cls)})

    @classmethod
    def of_columns(cls, columns: Iterable[Column]) -> "Segment":
        """The arrays in memory, read-only as those of a file are."""
        arrays = {}
        for name, dtype, shape, pieces in columns:
            whole = np.empty(shape, dtype=dtype)
            flat, at = whole.reshape(-1), 0
            for piece in pieces:
                flat[at : at + piece.size] = piece.reshape(-1)
                at += piece.size
            whole.flags.writeable = False
            arrays[name] = whole
        return cls.of_arrays(arrays)


def described(
    numbers: Sequence[int], places: Sequence[int], exact_hashes: Sequence[str], prompt: Spans, supervised: Spans
) -> Segment:
    """The segment of rows in their order. `exact_hashes`: 32 hex digits each."""
    n = len(numbers)
    digests = halves(exact_hashes)
    by_digest = np.lexsort((digests[1], digests[0]))
    keys = np.stack([short_keys(prompt.sketches), short_keys(supervised.sketches)])
    by_key = np.argsort(keys, axis=2, kind="stable")
    sizes = np.stack([np.diff(prompt.offsets), np.diff(supervised.offsets)])
    lists = [(spans.values, spans.offsets, np.arange(n)) for spans in (prompt, supervised)]
    return Segment.of_columns(
        [
            _whole("numbers", np.asarray(numbers, dtype=np.uint32)),
            _whole("places", np.asarray(places, dtype=np.int64)),
            _whole("digests", digests[:, by_digest]),
            _whole("digest_rows", by_digest.astype(np.uint32)),
            _whole("keys", np.take_along_axis(keys, by_key, axis=2)),
            _whole("key_rows", by_key.astype(np.uint32)),
            _whole("signs", np.stack([prompt.sketches, supervised.sketches]).astype(np.uint8)),
            _whole("sizes", sizes.astype(np.uint32)),
            *_shingles([[lists[0]], [lists[1]]], sizes, sizes),
        ]
    )


def halves(exact_hashes: Sequence[str]) -> np.ndarray:
    """Hashes of 32 hex digits as two rows of numbers, (2, n)."""
    joined = np.frombuffer(bytes.fromhex("".join(exact_hashes)), dtype=">u8").reshape(-1, 2)
    return np.ascontiguousarray(joined.T).astype(np.uint64)


def columns_of(segment: Segment) -> Iterator[Column]:
    """The arrays of a segment, to be written."""
    for field in fields(Segment):
        yield _whole(field.name, getattr(segment, field.name))


def merged(segments: Sequence[Segment], keep: Sequence[np.ndarray]) -> Iterator[Column]:
    """The arrays of one segment: all rows under the masks `keep`, in their order. Each is made when it is asked for."""
    rows = [np.flatnonzero(mask) for mask in keep]
    n = sum(map(len, rows))
    starts = np.cumsum([0, *map(len, rows)])
    renamed = []
    for mask, start in zip(keep, starts.tolist(), strict=False):
        names = np.cumsum(mask) - 1 + start
        names[~mask] = -1
        renamed.append(names)
    for name, dtype in (("numbers", "<u4"), ("places", "<i8")):
        yield name, dtype, (n,), (getattr(s, name)[r] for s, r in zip(segments, rows, strict=True))
    digests, by_digest = _digests(segments, renamed)
    yield _whole("digests", digests)
    yield _whole("digest_rows", by_digest)
    bands = [(side, band) for side in range(2) for band in range(BANDS)]
    shape = (2, BANDS, n)
    yield "keys", "<u4", shape, (_band(segments, renamed, *at)[0] for at in bands)
    yield "key_rows", "<u4", shape, (_band(segments, renamed, *at)[1] for at in bands)
    pairs = list(zip(segments, rows, strict=True))
    signs = (
        segment.signs[side, chosen[at : at + BATCH]]
        for side in range(2)
        for segment, chosen in pairs
        for at in range(0, len(chosen), BATCH)
    )
    yield "signs", "|u1", (2, n, PERMUTATIONS), signs
    sizes = np.concatenate([s.sizes[:, r] for s, r in pairs], axis=1) if pairs else np.empty((2, 0), dtype=np.uint32)
    yield _whole("sizes", sizes)
    lists = [[(s.values, s.offsets[side], r) for s, r in pairs] for side in range(2)]
    stored = [np.concatenate([np.diff(s.offsets[side])[r] for s, r in pairs]) for side in range(2)]
    yield from _shingles(lists, sizes, np.stack(stored))


def _whole(name: str, array: np.ndarray) -> Column:
    return name, array.dtype.str, array.shape, (array,)


def _digests(segments: Sequence[Segment], renamed: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    rows = np.concatenate([names[s.digest_rows] for s, names in zip(segments, renamed, strict=True)])
    digests = np.concatenate([s.digests for s in segments], axis=1)[:, rows >= 0]
    rows = rows[rows >= 0]
    order = np.lexsort((rows, digests[1], digests[0]))
    return digests[:, order], rows[order].astype(np.uint32)


def _band(
    segments: Sequence[Segment], renamed: Sequence[np.ndarray], side: int, band: int
) -> tuple[np.ndarray, np.ndarray]:
    rows = np.concatenate([names[s.key_rows[side, band]] for s, names in zip(segments, renamed, strict=True)])
    keys = np.concatenate([s.keys[side, band] for s in segments])[rows >= 0]
    rows = rows[rows >= 0]
    order = np.argsort(keys, kind="stable")  # sorted runs: a merge
    return keys[order], rows[order].astype(np.uint32)


Lists = Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Values, offsets and the rows to take, by segment."""


def _shingles(lists: Sequence[Lists], sizes: np.ndarray, stored: np.ndarray) -> Iterator[Column]:
    """`offsets` and `values` of both sides. `stored`: shingles of each text in `lists`, all of its own or none."""
    n = sizes.shape[1]
    whole = stored == sizes
    limit = _limit(stored[whole], max(LEAST, ROOM * n))
    taken = np.where(whole & (stored <= limit), stored, 0)
    ends = np.cumsum(taken.reshape(-1)).reshape(2, n)
    offsets = np.empty((2, n + 1), dtype=np.int64)
    offsets[:, 1:] = ends
    offsets[0, 0], offsets[1, 0] = 0, offsets[0, n]
    yield _whole("offsets", offsets)
    yield "values", "<u4", (int(offsets[1, n]),), _gathered(lists, taken)


def _limit(sizes: np.ndarray, room: int) -> int:
    """The largest number of shingles such that all texts of up to so many fit."""
    ordered = np.sort(sizes)
    beyond = np.flatnonzero(np.cumsum(ordered, dtype=np.int64) * 4 > room)
    if len(ordered) == 0:
        return 0
    return int(ordered[beyond[0]]) - 1 if len(beyond) else int(ordered[-1])


def _gathered(lists: Sequence[Lists], taken: np.ndarray) -> Iterator[np.ndarray]:
    for side in range(2):
        at = 0
        for values, offsets, rows in lists[side]:
            for start in range(0, len(rows), BATCH):
                batch = rows[start : start + BATCH]
                lengths = taken[side, at : at + len(batch)].astype(np.int64)
                ends = np.cumsum(lengths)
                if len(batch) and ends[-1]:
                    positions = np.repeat(offsets[batch] - (ends - lengths), lengths) + np.arange(ends[-1])
                    yield values[positions]
                at += len(batch)
