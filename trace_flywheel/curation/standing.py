"""Rows held against training data that exists: the first row of a corpus that equals one, or that is near to it.

A corpus is segments in the order of its rows. What is found depends on its rows alone: not on how they are cut into
segments, on whether those lie in memory or in files, nor on which of them keep their shingles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from trace_flywheel.curation.bands import BANDS, short_keys
from trace_flywheel.curation.compiled import plain
from trace_flywheel.curation.near_kernel import NONE, shared
from trace_flywheel.curation.segment import Segment, halves
from trace_flywheel.curation.sketch import Spans
from trace_flywheel.curation.standing_kernel import survivors

ESTIMATE_SLACK = 0.10
"""Candidates are looked at from this far below the threshold: three standard errors of the estimate at 0.85."""
QUERIES = 20_000
"""Rows looked up together: their buckets' bounds are 10 MB a segment."""
AT_ONCE = 1_000
"""Texts that are read again together."""
Reread = Callable[[np.ndarray], tuple[Spans, Spans]]
"""Prompt and supervised text of the rows at these `places` (ascending), read again."""


@dataclass(frozen=True)
class Part:
    """One corpus. `away`: by segment, the rows that count as not there (empty: none)."""

    name: str
    segments: tuple[Segment, ...]
    reread: Reread
    away: tuple[np.ndarray, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.segments))


@dataclass(frozen=True)
class Corpus:
    """Training data that exists already; its rows are numbered through in the order of parts and segments."""

    parts: tuple[Part, ...]
    _flat: tuple[tuple[int, Part, Segment, np.ndarray], ...] = field(init=False)

    def __post_init__(self) -> None:
        flat, base = [], 0
        for part in self.parts:
            for i, segment in enumerate(part.segments):
                away = part.away[i] if part.away else np.zeros(len(segment), dtype=bool)
                flat.append((base, part, segment, away))
                base += len(segment)
        object.__setattr__(self, "_flat", tuple(flat))

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def name(self, row: int) -> str:
        """Where a row stands: `name:number`."""
        base, part, segment, _ = next(entry for entry in reversed(self._flat) if entry[0] <= row)
        return f"{part.name}:{segment.numbers[row - base]}"

    def equal(self, exact_hashes: Sequence[str]) -> np.ndarray:
        """For each hash the first row that has it, `NONE` where none has."""
        wanted = halves(exact_hashes)
        found = np.full(wanted.shape[1], NONE, dtype=np.int64)
        for base, _, segment, away in self._flat:
            low = np.searchsorted(segment.digests[0], wanted[0], "left")
            end = np.searchsorted(segment.digests[0], wanted[0], "right")
            for query in np.flatnonzero((found == NONE) & (low < end)).tolist():
                at = slice(low[query], end[query])
                rows = segment.digest_rows[at][segment.digests[1, at] == wanted[1, query]]
                rows = rows[~away[rows]]
                if len(rows):
                    found[query] = base + int(rows.min())
        return found

    def near(self, prompt: Spans, supervised: Spans, threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """For each query the first row near to it in both texts (`NONE`), and the Jaccard of prompt and supervised.

        Candidates share a band of the side whose buckets hold fewer rows; each is verified exactly.
        """
        match = np.full(len(prompt), NONE, dtype=np.int64)
        scores = np.zeros((len(prompt), 2))
        for start in range(0, len(prompt), QUERIES):
            at = slice(start, start + QUERIES)
            batch = _Batch(_cut(prompt, at), _cut(supervised, at), threshold, match[at], scores[at])
            bounds = [batch.bounds(segment) for _, _, segment, _ in self._flat]
            total = sum(((high - low).sum(axis=1) for low, high in bounds), np.zeros((2, len(batch.match)), np.int64))
            side = np.where(total[0] < total[1], 0, 1)
            for (low, high), (base, part, segment, away) in zip(bounds, self._flat, strict=True):
                batch.look(low, high, side, base, part, segment, away)
        return match, scores


@dataclass(frozen=True)
class _Batch:
    """Queries looked up together; `match` and `scores` are filled."""

    prompt: Spans
    supervised: Spans
    threshold: float
    match: np.ndarray
    scores: np.ndarray
    _keys: np.ndarray = field(init=False)
    _signs: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        sketches = (self.prompt.sketches, self.supervised.sketches)
        object.__setattr__(self, "_keys", np.stack([short_keys(s) for s in sketches]))
        object.__setattr__(self, "_signs", np.stack(sketches).astype(np.uint8))

    def bounds(self, segment: Segment) -> tuple[np.ndarray, np.ndarray]:
        """Where the buckets of the queries begin and end, (side, band, query)."""
        low, high = np.empty((2, *self._keys.shape), dtype=np.int64)
        for side in range(2):
            for band in range(BANDS):
                keys, wanted = segment.keys[side, band], self._keys[side, band]
                low[side, band] = np.searchsorted(keys, wanted, "left")
                high[side, band] = np.searchsorted(keys, wanted, "right")
        return low, high

    def look(
        self,
        low: np.ndarray,
        high: np.ndarray,
        side: np.ndarray,
        base: int,
        part: Part,
        segment: Segment,
        away: np.ndarray,
    ) -> None:
        """Match the queries that have none yet with rows of a segment."""
        most = int(np.minimum((high - low).sum(axis=1).max(initial=0), len(segment)))
        if not most:
            return
        room = max(BUFFER, most)
        query, row = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
        verified, scores = np.empty(room, dtype=bool), np.empty((room, 2))
        first = 0
        while first < len(self.match):
            first, used = survivors(
                first,
                self.match == NONE,
                low,
                high,
                side,
                segment.key_rows,
                segment.signs,
                segment.sizes,
                segment.offsets,
                segment.values,
                away,
                self._signs,
                self.prompt.values,
                self.prompt.offsets,
                self.supervised.values,
                self.supervised.offsets,
                self.threshold,
                max(0.0, self.threshold - ESTIMATE_SLACK),
                query,
                row,
                verified,
                scores,
            )
            doubt = np.flatnonzero(~verified[:used])
            scores[doubt] = self._measured(query[doubt], row[doubt], part, segment)
            for i in np.flatnonzero((scores[:used] >= self.threshold).all(axis=1)).tolist():
                if self.match[query[i]] == NONE:
                    self.match[query[i]] = base + row[i]
                    self.scores[query[i]] = scores[i]

    def _measured(self, queries: np.ndarray, rows: np.ndarray, part: Part, segment: Segment) -> np.ndarray:
        """Jaccard of queries and rows whose shingles the segment does not keep, from their text."""
        measured = np.empty((len(rows), 2))
        wanted, which = np.unique(rows, return_inverse=True)
        for start in range(0, len(wanted), AT_ONCE):
            batch = wanted[start : start + AT_ONCE]
            texts = part.reread(segment.places[batch])
            for i in np.flatnonzero((which >= start) & (which < start + len(batch))).tolist():
                at = which[i] - start
                for side, (mine, theirs) in enumerate(zip((self.prompt, self.supervised), texts, strict=True)):
                    measured[i, side] = plain(shared)(*_set(mine, queries[i]), *_set(theirs, at))
        return measured


BUFFER = 1 << 16
"""Entries of undecided and verified rows that are handed over together."""


def _set(spans: Spans, row: int) -> tuple[np.ndarray, int, int]:
    return spans.values, int(spans.offsets[row]), int(spans.offsets[row + 1])


def _cut(spans: Spans, at: slice) -> Spans:
    offsets = spans.offsets[at.start : at.stop + 1]  # a view: nothing is copied
    return Spans(spans.sketches[at], spans.values[offsets[0] : offsets[-1]], offsets - offsets[0])
