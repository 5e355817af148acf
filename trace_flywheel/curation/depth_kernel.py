"""The n-gram blocks of many prompts at once, compiled by numba, with a numpy twin that gives the same numbers.

A prompt's block holds each hashed n-gram that occurs once, as a column, ascending, with one value for all, so that the
block has a fixed length however long the prompt is.
"""

from collections.abc import Sequence

import numpy as np

from trace_flywheel.curation.compiled import compiled, pays
from trace_flywheel.curation.token_kernel import fill_ngrams, ngram_hashes

WORD_BITS = 16
CHAR_BITS = 17
CHAR_NGRAMS = (2, 3, 4)
LENGTH = 2.0
"""Length of an n-gram block beside the cues; best of 1, 2, 3 by cross-validation."""
BASE = np.uint64(0x9E3779B97F4A7C15)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_LOWEST = np.zeros(64, dtype=np.int32)
_LOWEST[[((1 << i) * int(_DE_BRUIJN) & 0xFFFFFFFFFFFFFFFF) >> 58 for i in range(64)]] = np.arange(64)
"""Place of the only bit of a word, by the six high bits of its product with the De Bruijn number."""
Blocks = tuple[np.ndarray, np.ndarray, np.ndarray]
"""int64 ends of the prompts' rows (n + 1), int32 columns, float32 values."""


def blocks(words: Sequence[np.ndarray], texts: Sequence[str], table: np.ndarray) -> Blocks:
    """For each prompt the columns of its word 1-2-grams (from 0) and after them of its character n-grams (from
    2**WORD_BITS). `words`: the UTF-8 bytes that words are cut from by `table`; `texts`: what characters are read of."""
    if not pays("depth_kernel", len(texts) * 1e-4 + sum(map(len, texts)) * 5e-7):
        return blocks_numpy(words, texts, table)
    sizes = [*map(len, words), *map(len, texts)]
    tokens, grams = (np.empty(k * (max(sizes, default=0) + 4), dtype=np.uint64) for k in (1, 3))
    room = 2 * sum(sizes[: len(words)]) + 2 * len(words) + len(CHAR_NGRAMS) * sum(sizes[len(words) :])
    ends, columns, values = np.zeros(len(words) + 1, np.int64), np.empty(room, np.int32), np.empty(room, np.float32)
    marks = np.zeros((1 << CHAR_BITS) >> 6, dtype=np.uint64)
    at = 0
    for row, (own, text) in enumerate(zip(words, texts, strict=True)):
        start = at
        n = fill_ngrams(own, table, 1, tokens, grams)
        n += fill_ngrams(own, table, 2, tokens, grams[n:])
        at = _distinct(grams, n, WORD_BITS, marks, _LOWEST, 0, columns, at)
        values[start:at] = LENGTH / max(1, at - start) ** 0.5
        start = at
        n = _fill_characters(np.frombuffer(text.encode("utf-32-le", "replace"), dtype="<u4"), grams)
        at = _distinct(grams, n, CHAR_BITS, marks, _LOWEST, 1 << WORD_BITS, columns, at)
        values[start:at] = LENGTH / max(1, at - start) ** 0.5
        ends[row + 1] = at
    return ends, columns[:at], values[:at]


@compiled
def _distinct(
    grams: np.ndarray,
    n: int,
    bits: int,
    marks: np.ndarray,
    lowest: np.ndarray,
    first: int,
    columns: np.ndarray,
    at: int,
) -> int:
    """Write the columns of `n` n-grams, each once and ascending, from `at` on; a bitmap sorts them. Returns the end."""
    shift = np.uint64(64 - bits)
    for i in range(n):
        column = grams[i] >> shift
        marks[column >> np.uint64(6)] |= np.uint64(1) << (column & np.uint64(63))
    for word in range((1 << bits) >> 6):
        left = marks[word]
        marks[word] = 0
        while left != 0:
            bit = left & (~left + np.uint64(1))
            left ^= bit
            columns[at] = first + (word << 6) + lowest[(bit * _DE_BRUIJN) >> np.uint64(58)]
            at += 1
    return at


@compiled
def _fill_characters(codes: np.ndarray, grams: np.ndarray) -> int:
    """Writes the hashes of the 2-, 3- and 4-grams of characters and returns their number."""
    n = 0
    for i in range(len(codes)):
        gram = np.uint64(codes[i])
        for j in range(i + 1, min(i + 4, len(codes))):
            gram = gram * BASE + np.uint64(codes[j])
            grams[n] = (gram ^ (gram >> np.uint64(29))) * BASE
            n += 1
    return n


def blocks_numpy(words: Sequence[np.ndarray], texts: Sequence[str], table: np.ndarray) -> Blocks:
    """The same without a compiler."""
    columns, values, ends = [np.empty(0, np.int32)], [np.empty(0, np.float32)], [0]
    for own, text in zip(words, texts, strict=True):
        grams = np.concatenate([ngram_hashes(own, table, 1), ngram_hashes(own, table, 2)])
        for hashes, bits, first in ((grams, WORD_BITS, 0), (_char_grams(text), CHAR_BITS, 1 << WORD_BITS)):
            found = np.unique((hashes >> np.uint64(64 - bits)).astype(np.int32)) + np.int32(first)
            columns.append(found)
            values.append(np.full(len(found), LENGTH / max(1, len(found)) ** 0.5, dtype=np.float32))
        ends.append(ends[-1] + len(columns[-2]) + len(columns[-1]))
    return np.array(ends, dtype=np.int64), np.concatenate(columns), np.concatenate(values)


def _char_grams(text: str) -> np.ndarray:
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), dtype="<u4").astype(np.uint64)
    grams = []
    hashes = codes
    for n in CHAR_NGRAMS:
        hashes = hashes[:-1] * BASE + codes[n - 1 :]
        grams.append(hashes ^ (hashes >> np.uint64(29)))
    return np.concatenate(grams) * BASE
