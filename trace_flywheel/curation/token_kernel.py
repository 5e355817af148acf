"""Text to token n-gram hashes: the loop over every byte of a corpus, compiled by numba, with a numpy twin.

A token is a run of bytes that the table does not map to 0, lower-cased by the table; in scripts written without
spaces (Chinese, Japanese, Thai, Lao, Myanmar, Khmer) every character is a token of its own, wherever it stands, so
that one foreign word in a text changes its own n-grams only. Both paths give the same numbers on every machine.

`utf8` prepares text and `ngram_hashes` does the rest. A token hashes as the polynomial sum(byte * P^k) mod 2^64,
mixed; an n-gram as the polynomial of its tokens' hashes, mixed again. A text of fewer than n tokens is one n-gram; a
text without tokens has none.
"""

import re
import threading
import unicodedata

import numpy as np

from trace_flywheel.curation.compiled import compiled, pays
from trace_flywheel.curation.token_thirds import BYTE_BASE, fill_spaced

GRAM_BASE = 0xD6E8FEB86659FD93
MIX = 0xFF51AFD7ED558CCD
_BYTE_BASE, _GRAM_BASE, _MIX = np.uint64(BYTE_BASE), np.uint64(GRAM_BASE), np.uint64(MIX)
_HALF, _ZERO = np.uint64(32), np.uint64(0)
SHINGLE = 5
"""Tokens of a shingle, which has a loop of its own: unrelated texts score 0.01, character 5-grams 0.09 at six times the
cost."""
SPACELESS = 0xE0
"""The least byte that begins a character of a script without spaces."""
ROOM = 4
"""Places of a buffer beside one for every other byte: each third of a text has one of its own, and one behind."""
_LOCAL = threading.local()
_KEPT = 1 << 20
"""Tokens of the longest text whose buffers (24 MB) are kept."""


def utf8(text: str, separators: re.Pattern[str]) -> np.ndarray:
    """The bytes that tokens are cut from. ASCII is left to the table; other characters are normalised and case-folded,
    and where `separators` matches them a blank stands instead. A line of ASCII costs nothing more in any text."""
    if not text.isascii():
        text = "\n".join(line if line.isascii() else _plain(line, separators) for line in text.split("\n"))
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)


def _plain(line: str, separators: re.Pattern[str]) -> str:
    return separators.sub(" ", unicodedata.normalize("NFKC", line).casefold())


def ngram_hashes(data: np.ndarray, table: np.ndarray, n: int) -> np.ndarray:
    """64-bit hashes of the n-grams of UTF-8 bytes, in text order, repeats included.

    `table` is 256 x uint8: 0 separates tokens, any other value is the byte that is hashed.
    """
    if not pays("sketch", 2e-4 + len(data) * 8e-8):
        return ngram_hashes_numpy(data, table, n)
    tokens, grams, _ = scratch(len(data) // 2 + ROOM)
    found: np.ndarray = grams[: fill_ngrams(data, table, n, tokens, grams)]
    return found.copy()


def scratch(size: int) -> np.ndarray:
    """Three buffers of this thread, kept: fresh pages for every text would cost as much as hashing it."""
    buffers: np.ndarray | None = getattr(_LOCAL, "buffers", None)
    if buffers is None or buffers.shape[1] < size:
        if size > _KEPT:
            return np.empty((3, size), dtype=np.uint64)
        buffers = _LOCAL.buffers = np.empty((3, max(size, 1 << 14)), dtype=np.uint64)
    return buffers


@compiled
def _spaceless(lead: int, second: int) -> bool:
    """Whether a UTF-8 sequence that starts with these two bytes is a character of a script without spaces."""
    if lead == 0xE0:
        return 0xB8 <= second <= 0xBB  # Thai, Lao
    if lead == 0xE1:
        return 0x80 <= second <= 0x82 or second == 0x9E or second == 0x9F  # Myanmar, Khmer
    if lead == 0xE2:
        return second >= 0xBA  # CJK radicals
    if lead == 0xEF:
        return 0xA4 <= second <= 0xAB  # CJK compatibility ideographs
    return 0xE3 <= lead <= 0xE9 or (lead == 0xF0 and second >= 0xA0)  # kana, CJK, CJK extensions


@compiled
def _mixed(value: np.uint64) -> np.uint64:
    value ^= value >> _HALF
    value *= _MIX
    return value ^ (value >> _HALF)


@compiled
def _fill_any(data: np.ndarray, table: np.ndarray, hashes: np.ndarray) -> np.int64:
    """`fill_spaced` of any script."""
    size = len(data)
    tokens = 0
    token = _ZERO
    i = 0
    while i < size:
        byte = table[data[i]]
        if byte == 0:
            hashes[tokens] = token
            tokens += token != 0
            token = _ZERO
        elif byte >= SPACELESS and i + 1 < size and _spaceless(int(byte), int(data[i + 1])):
            hashes[tokens] = token
            tokens += token != 0
            token = _ZERO
            end = min(size, i + (4 if byte >= 0xF0 else 3))
            while i < end:
                token = token * _BYTE_BASE + np.uint64(data[i])
                i += 1
            hashes[tokens] = token
            tokens += 1
            token = _ZERO
            continue
        else:
            token = token * _BYTE_BASE + np.uint64(byte)
        i += 1
    hashes[tokens] = token
    return np.int64(tokens + (token != 0))


@compiled
def fill_ngrams(data: np.ndarray, table: np.ndarray, n: int, token_hashes: np.ndarray, grams: np.ndarray) -> int:
    """Fills two buffers, of a place for every other byte and `ROOM`, and returns the number of n-grams."""
    highest = np.uint8(0)
    for i in range(len(data)):
        highest = max(highest, data[i])
    spaced = highest < SPACELESS
    tokens = int(fill_spaced(data, table, token_hashes) if spaced else _fill_any(data, table, token_hashes))
    for j in range(tokens):
        token_hashes[j] = _mixed(token_hashes[j])
    width = min(n, tokens)
    written = tokens - width + 1 if tokens > 0 else 0
    if width == SHINGLE:
        return _fill_shingles(token_hashes[:tokens], grams[:written])
    for j in range(written):
        grams[j] = token_hashes[j]
    for k in range(1, width):  # the long loop inside: it runs in vector registers
        for j in range(written):
            grams[j] = grams[j] * _GRAM_BASE + token_hashes[j + k]
    for j in range(written):
        grams[j] = _mixed(grams[j])
    return written


@compiled
def _fill_shingles(tokens: np.ndarray, grams: np.ndarray) -> int:
    """The n-grams of `SHINGLE` tokens, which stay in registers."""
    second, third, fourth, fifth = tokens[1:], tokens[2:], tokens[3:], tokens[4:]
    for j in range(len(grams)):
        gram = (tokens[j] * _GRAM_BASE + second[j]) * _GRAM_BASE + third[j]
        grams[j] = _mixed((gram * _GRAM_BASE + fourth[j]) * _GRAM_BASE + fifth[j])
    return len(grams)


def ngram_hashes_numpy(data: np.ndarray, table: np.ndarray, n: int) -> np.ndarray:
    """The same without a compiler: token hashes from prefix sums of byte * P^-k, which wrap exactly mod 2^64."""
    mapped = table[data]
    size = len(mapped)
    starts, ends = _token_bounds(data, mapped)
    if len(starts) == 0:
        return np.empty(0, dtype=np.uint64)
    inverse = np.uint64(pow(BYTE_BASE, -1, 1 << 64))
    weights = _powers(inverse, size)
    prefix = np.zeros(size + 1, dtype=np.uint64)
    np.cumsum(mapped * weights, out=prefix[1:])
    tokens = _mixed_array((prefix[ends] - prefix[starts]) * _powers(_BYTE_BASE, size)[ends - 1])
    width = min(n, len(tokens))
    grams = np.zeros(len(tokens) - width + 1, dtype=np.uint64)
    for k in range(width):
        grams = grams * _GRAM_BASE + tokens[k : len(tokens) - width + 1 + k]
    return _mixed_array(grams)


def _powers(base: np.uint64, count: int) -> np.ndarray:
    powers = np.full(count, base, dtype=np.uint64)
    powers[0] = 1
    return np.cumprod(powers, out=powers)


def _mixed_array(values: np.ndarray) -> np.ndarray:
    values = values ^ (values >> _HALF)
    values *= _MIX
    values ^= values >> _HALF
    return values


def _token_bounds(data: np.ndarray, mapped: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start and end of every token; a character of a script without spaces starts one and ends the one before."""
    size = len(mapped)
    word = mapped != 0
    first = np.zeros(size + 1, dtype=bool)
    first[:size] = word
    first[1:size] &= ~word[:-1]
    heads = np.flatnonzero(mapped[:-1] >= 0xE0) if size > 1 else np.empty(0, dtype=np.int64)
    heads = heads[[bool(_spaceless(int(mapped[i]), int(data[i + 1]))) for i in heads]] if len(heads) else heads
    after = np.minimum(heads + np.where(mapped[heads] >= 0xF0, 4, 3), size)
    first[heads] = True
    first[after] = True
    starts = np.flatnonzero(first[:size] & word)
    stops = np.flatnonzero(first | np.append(~word, True))
    ends = stops[np.searchsorted(stops, starts, side="right")]
    return starts, ends


def distinct(values: np.ndarray) -> np.ndarray:
    """Sorted values, each once. (`np.unique` imports numpy's masked arrays to tell that these are none.)"""
    first = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return values[first]
