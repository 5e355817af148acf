"""MinHash sketches of what a row asks and of what it teaches.

Two texts of a row are described. The *prompt* is its user turns. The *supervised* text is its trained assistant
turns: reasoning, content, and calls by name and canonical arguments. System prompts, tool schemas and tool output are
in neither: rows share them and they would make every row look like every other.

A text becomes the set of its 5-shingles (five tokens; a token is a word, or a character in scripts without spaces),
case-folded, as 32-bit hashes; a text of fewer than five tokens is one shingle. The sketch is 128 x uint32, bit for
bit datasketch's `MinHash(num_perm=128, scheme="affine32")` over those hashes.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from trace_flywheel.curation.compiled import compiled, pays
from trace_flywheel.curation.token_kernel import ngram_hashes, utf8
from trace_flywheel.records.canonical import canonical_arguments
from trace_flywheel.records.index import PERMUTATIONS
from trace_flywheel.records.message import Message, text_of

SHINGLE = 5
"""Tokens of a shingle: unrelated texts score 0.01, character 5-grams 0.09 at six times the cost."""
EMPTY = np.uint32(0xFFFFFFFF)


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
        return cls._of_sets([shingle_hashes(text) for text in texts])

    @classmethod
    def of_columns(cls, sketches: Sequence[bytes], shingles: Sequence[Sequence[int]]) -> "Spans":
        """From the columns of index entries (`*_sketch`, `*_shingles`)."""
        sets = [np.asarray(s, dtype=np.uint32) for s in shingles]
        joined = np.frombuffer(b"".join(sketches), dtype="<u4").reshape(-1, PERMUTATIONS)
        return cls(joined, *_ragged(sets))

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
        return (
            cls._of_sets([])
            if not spans
            else cls(
                np.concatenate([one.sketches for one in spans]),
                np.concatenate([one.values for one in spans]),
                np.append(0, np.cumsum(np.concatenate([np.diff(one.offsets) for one in spans]))).astype(np.int64),
            )
        )

    @classmethod
    def _of_sets(cls, sets: list[np.ndarray]) -> "Spans":
        sketches = np.full((len(sets), PERMUTATIONS), EMPTY, dtype=np.uint32)
        for row, shingles in enumerate(sets):
            sketches[row] = sketch(shingles)
        return cls(sketches, *_ragged(sets))


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
    hashes = (ngram_hashes(utf8(text, _BLANKS), _WORDS, SHINGLE) >> np.uint64(32)).astype(np.uint32)
    hashes.sort()
    return hashes[: _unique(hashes)] if pays("sketch", 2e-5) else np.unique(hashes)


def sketch(shingles: np.ndarray) -> np.ndarray:
    """MinHash of 32-bit shingle hashes, 128 x uint32; all ones for none."""
    a, b = _permutations()
    mixed = _fmix32(np.asarray(shingles, dtype=np.uint32))
    if not pays("sketch", 5e-5 + len(mixed) * 3e-7):
        return _minima_numpy(mixed, a, b)
    out = np.empty(PERMUTATIONS, dtype=np.uint32)
    _minima(mixed, a, b, out)
    return out


@compiled
def _unique(ordered: np.ndarray) -> int:
    """Moves the distinct values of a sorted array to its front and returns their number."""
    size = 0
    for j in range(len(ordered)):
        value = ordered[j]
        if size == 0 or ordered[size - 1] != value:
            ordered[size] = value
            size += 1
    return size


@cache
def _permutations() -> tuple[np.ndarray, np.ndarray]:
    """datasketch's own, seed 1: its `MinHash._init_permutations` for affine32 (a odd, b any, RandomState)."""
    generator = np.random.RandomState(1)
    a = generator.randint(0, 1 << 31, PERMUTATIONS, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    b = generator.randint(0, 1 << 32, PERMUTATIONS, dtype=np.uint32)
    return a, b


def _fmix32(h: np.ndarray) -> np.ndarray:
    """MurmurHash3's finaliser, which datasketch applies before its permutations."""
    h = h ^ (h >> np.uint32(16))
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return h


@compiled
def _minima(hashes: np.ndarray, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    for k in range(len(a)):
        low = np.uint32(0xFFFFFFFF)
        factor = a[k]
        shift = b[k]
        for j in range(len(hashes)):
            low = min(low, np.uint32(factor * hashes[j] + shift))
        out[k] = low


def _minima_numpy(hashes: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    low = np.full(PERMUTATIONS, EMPTY, dtype=np.uint32)
    for start in range(0, len(hashes), 1024):  # 1024 x 128 x 4 bytes stay in the second-level cache
        block = hashes[start : start + 1024, None] * a + b
        np.minimum(low, block.min(axis=0), out=low)
    return low
