"""MinHash sketches of what a row asks and of what it teaches.

Two texts of a row are described. The *prompt* is its user turns. The *supervised* text is its trained assistant
turns: reasoning, content, and calls by name and canonical arguments. System prompts, tool schemas and tool output are
in neither: rows share them and they would make every row look like every other.

A text becomes the set of its 5-shingles (five tokens; a token is a word, or a character in scripts without spaces),
case-folded, as 32-bit hashes; a text of fewer than five tokens is one shingle. The sketch is 128 x uint32, bit for
bit datasketch's `MinHash(num_perm=128, scheme="affine32")` over those hashes.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from trace_flywheel.curation.compiled import compiled, pays, plain
from trace_flywheel.curation.token_kernel import ROOM, SHINGLE, distinct, fill_ngrams, ngram_hashes_numpy, scratch, utf8
from trace_flywheel.records.canonical import canonical_arguments
from trace_flywheel.records.index import PERMUTATIONS
from trace_flywheel.records.message import Message, text_of

EMPTY = np.uint32(0xFFFFFFFF)
BATCH_CHARS = 1 << 18
"""Of texts that are described together: what they become stays in the second-level cache."""


def _whitespace_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint8)
    table[[9, 10, 11, 12, 13, 28, 29, 30, 31, 32]] = 0
    table[0] = 1  # a NUL is text: only white space separates words, as in str.split
    table[65:91] += 32
    return table


_WORDS = _whitespace_table()
_BLANKS = re.compile("[\x85\u1680\u2028\u2029]")
"""White space outside ASCII that NFKC does not turn into a blank."""


@dataclass(frozen=True)
class Spans:
    """The sketches and shingle sets of one text of n rows.

    `sketches` is (n, 128) uint32. The shingles of row i are `values[offsets[i]:offsets[i + 1]]`, uint32, sorted,
    unique: the layout of an Arrow list column, so that a column becomes Spans without a copy.
    """

    sketches: np.ndarray
    values: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.sketches)

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> "Spans":
        return cls.joined([cls._of_batch(batch) for batch in _batches(texts)])

    @classmethod
    def _of_batch(cls, texts: Sequence[str]) -> "Spans":
        data = [utf8(text, _BLANKS) for text in texts]
        offsets = np.zeros(len(data) + 1, dtype=np.int64)
        if pays("sketch", len(data) * 2e-4 + sum(map(len, data)) * 8e-8):
            ends = np.cumsum([len(text) for text in data])
            tokens, grams, rest = scratch(int(ends[-1]) // 2 + len(data) + ROOM)
            hashes, mixed = rest.view(np.uint32).reshape(2, -1)
            hashes = hashes[: _fill(np.concatenate(data), ends, _WORDS, SHINGLE, tokens, grams, hashes, offsets)]
        else:
            found = [(ngram_hashes_numpy(text, _WORDS, SHINGLE) >> np.uint64(32)).astype(np.uint32) for text in data]
            hashes, offsets = _ragged(found)
            mixed = np.empty_like(hashes)
        for start, end in pairwise(offsets.tolist()):
            hashes[start:end].sort()
        return cls._of_hashes(hashes, offsets, mixed)

    @classmethod
    def _of_hashes(cls, hashes: np.ndarray, offsets: np.ndarray, mixed: np.ndarray) -> "Spans":
        """From the hashes of each text, sorted; takes the offsets for its own and writes to the other arrays."""
        sketches = np.empty((len(offsets) - 1, PERMUTATIONS), dtype=np.uint32)
        if pays("sketch", len(sketches) * 7e-5 + len(hashes) * 3e-7):
            size = _distil(hashes, offsets, mixed, *_permutations(), sketches)
            return cls(sketches, hashes[:size].copy(), offsets)
        sets = [distinct(hashes[start:end]) for start, end in pairwise(offsets.tolist())]
        for row, shingles in enumerate(sets):
            sketches[row] = _minima_numpy(plain(_fmix32)(shingles), *_permutations())
        return cls(sketches, *_ragged(sets))

    @classmethod
    def of_columns(cls, sketches: Sequence[bytes], shingles: Sequence[Sequence[int]]) -> "Spans":
        """From the columns of index entries (`*_sketch`, `*_shingles`)."""
        sets = [np.asarray(s, dtype=np.uint32) for s in shingles]
        joined = np.frombuffer(b"".join(sketches), dtype="<u4").reshape(-1, PERMUTATIONS)
        return cls(joined, *_ragged(sets))

    def of_row(self, row: int) -> tuple[bytes, np.ndarray]:
        """The sketch of a text as it is written, and its shingles."""
        start, end = self.offsets[row : row + 2].tolist()
        return self.sketches[row].astype("<u4", copy=False).tobytes(), self.values[start:end]

    def take(self, rows: np.ndarray) -> "Spans":
        """The texts of some rows, in the order given."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        positions = np.repeat(self.offsets[:-1][rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Spans(self.sketches[rows], self.values[positions], offsets)

    @classmethod
    def joined(cls, spans: Sequence["Spans"]) -> "Spans":
        """The texts of several, one after the other."""
        return cls(
            np.concatenate([np.empty((0, PERMUTATIONS), dtype=np.uint32), *(one.sketches for one in spans)]),
            np.concatenate([np.empty(0, dtype=np.uint32), *(one.values for one in spans)]),
            np.cumsum(np.concatenate([[0], *(np.diff(one.offsets) for one in spans)]), dtype=np.int64),
        )


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Texts that are described together."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH_CHARS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _ragged(sets: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.zeros(len(sets) + 1, dtype=np.int64)
    np.cumsum([len(s) for s in sets], out=offsets[1:])
    return (np.concatenate(sets) if sets else np.empty(0)).astype(np.uint32, copy=False), offsets


def prompt_text(messages: Sequence[Message]) -> str:
    """The user turns."""
    return "\n".join(text_of(m.content) for m in messages if m.role == "user")


def supervised_text(messages: Sequence[Message]) -> str:
    """What a trainer learns: assistant turns that are not masked, reasoning, content, calls, in that order."""
    return "\n".join(piece for m in messages if m.role == "assistant" and m.train_on is not False for piece in _said(m))


def _said(message: Message) -> list[str]:
    calls = [f"{call.name} {canonical_arguments(call.arguments)}" for call in message.tool_calls]
    return [piece for piece in (message.reasoning, text_of(message.content), *calls) if piece]


def shingle_hashes(text: str) -> np.ndarray:
    """Sorted unique 32-bit hashes of the text's 5-shingles; empty for a text without words."""
    return Spans.of_texts([text]).values


def sketch(shingles: np.ndarray) -> np.ndarray:
    """MinHash of 32-bit shingle hashes, 128 x uint32; all ones for none."""
    hashes = np.sort(np.asarray(shingles, dtype=np.uint32))
    return Spans._of_hashes(hashes, np.array([0, len(hashes)]), np.empty_like(hashes)).sketches.reshape(-1)


@compiled
def _fill(
    data: np.ndarray,
    ends: np.ndarray,
    table: np.ndarray,
    n: int,
    tokens: np.ndarray,
    grams: np.ndarray,
    hashes: np.ndarray,
    offsets: np.ndarray,
) -> int:
    """Writes the 32-bit hashes of the n-grams of texts that stand one after the other in `data`, where each of them
    ends into `offsets` from 1 on, and returns their number."""
    at = start = 0
    for row in range(len(ends)):
        found = fill_ngrams(data[start : ends[row]], table, n, tokens, grams)
        for j in range(found):
            hashes[at + j] = np.uint32(grams[j] >> np.uint64(32))
        at += found
        offsets[row + 1] = at
        start = ends[row]
    return at


@compiled
def _distil(
    hashes: np.ndarray, offsets: np.ndarray, mixed: np.ndarray, a: np.ndarray, b: np.ndarray, sketches: np.ndarray
) -> int:
    """Moves the distinct values of each sorted set to the front, with their offsets, and sketches them by permutations,
    two at a time; their number. `mixed`: room for as many values."""
    one, at, start = np.uint64(1), np.uint64(0), np.uint64(0)
    for row in range(len(sketches)):
        first, end = at, np.uint64(offsets[row + 1])
        if start < end:
            last = hashes[start]
            for j in range(start + one, end):  # a repeat is written over: cheaper than a branch
                hashes[at] = last
                at += np.uint64(hashes[j] != last)
                last = hashes[j]
            hashes[at] = last
            at += one
        start = end
        offsets[row + 1] = np.int64(at)
        own, distinct_ones = mixed[first:at], hashes[first:at]
        for j in range(len(own)):
            own[j] = _fmix32(distinct_ones[j])
        for k in range(0, len(a), 2):
            low, other = np.uint32(0xFFFFFFFF), np.uint32(0xFFFFFFFF)
            factor, shift, its_factor, its_shift = a[k], b[k], a[k + 1], b[k + 1]
            for j in range(len(own)):  # from 0: a place that might be negative keeps this out of vector registers
                low = min(low, np.uint32(factor * own[j] + shift))
                other = min(other, np.uint32(its_factor * own[j] + its_shift))
            sketches[row, k], sketches[row, k + 1] = low, other
    return int(at)


@cache
def _permutations() -> tuple[np.ndarray, np.ndarray]:
    """datasketch's own, seed 1: its `MinHash._init_permutations` for affine32 (a odd, b any, RandomState)."""
    generator = np.random.RandomState(1)
    a = generator.randint(0, 1 << 31, PERMUTATIONS, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    b = generator.randint(0, 1 << 32, PERMUTATIONS, dtype=np.uint32)
    return a, b


@compiled
def _fmix32(h: Any) -> Any:
    """MurmurHash3's finaliser, which datasketch applies before its permutations: of a number, or (`plain`) an array."""
    h = np.uint32(h ^ (h >> np.uint32(16)))
    h = np.uint32(h * np.uint32(0x85EBCA6B))
    h = np.uint32(h ^ (h >> np.uint32(13)))
    h = np.uint32(h * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))


def _minima_numpy(hashes: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    low = np.full(PERMUTATIONS, EMPTY, dtype=np.uint32)
    for start in range(0, len(hashes), 1024):  # 1024 x 128 x 4 bytes stay in the second-level cache
        block = hashes[start : start + 1024, None] * a + b
        np.minimum(low, block.min(axis=0), out=low)
    return low
