"""Text to token n-gram hashes: the loop over every byte of a corpus, compiled by numba, with a numpy twin.

A token is a run of bytes that the table does not map to 0, lower-cased by the table; in scripts written without
spaces (Chinese, Japanese, Thai, Lao, Myanmar, Khmer) every character is a token of its own, wherever it stands, so
that one foreign word in a text changes its own n-grams only. Both paths give the same numbers on every machine.

A token hashes as the polynomial sum(byte * P^k) mod 2^64, mixed; an n-gram as the polynomial of its tokens' hashes,
mixed again. A text of fewer than n tokens is one n-gram; a text without tokens has none.
"""

import numpy as np

from trace_flywheel.curation.compiled import COMPILED, compiled

BYTE_BASE = 0x9E3779B97F4A7C15
GRAM_BASE = 0xD6E8FEB86659FD93
MIX = 0xFF51AFD7ED558CCD
_BYTE_BASE, _GRAM_BASE, _MIX = np.uint64(BYTE_BASE), np.uint64(GRAM_BASE), np.uint64(MIX)
_HALF = np.uint64(32)


def ngram_hashes(data: np.ndarray, table: np.ndarray, n: int) -> np.ndarray:
    """64-bit hashes of the n-grams of UTF-8 bytes, in text order, repeats included.

    `table` is 256 x uint8: 0 separates tokens, any other value is the byte that is hashed.
    """
    if not COMPILED:
        return ngram_hashes_numpy(data, table, n)
    out = np.empty(len(data) // 2 + 1, dtype=np.uint64)
    return out[: _ngrams(data, table, n, _power(n - 1), out)].copy()


def _power(exponent: int) -> np.uint64:
    return np.uint64(pow(GRAM_BASE, exponent, 1 << 64))


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
def _ngrams(data: np.ndarray, table: np.ndarray, n: int, top: np.uint64, out: np.ndarray) -> int:
    """Fills `out` and returns the number of n-grams. The window slides: the oldest token leaves with weight `top`."""
    ring = np.zeros(n, dtype=np.uint64)
    tokens = 0
    written = 0
    gram = np.uint64(0)
    token = np.uint64(0)
    inside = False
    size = len(data)
    i = 0
    while i <= size:
        byte = table[data[i]] if i < size else np.uint8(0)
        alone = byte >= 0xE0 and i + 1 < size and _spaceless(int(byte), int(data[i + 1]))
        if inside and (byte == 0 or alone):
            inside = False
            slot = tokens % n
            token = _mixed(token)
            gram = (gram - ring[slot] * top) * _GRAM_BASE + token
            ring[slot] = token
            tokens += 1
            if tokens >= n:
                out[written] = _mixed(gram)
                written += 1
            token = np.uint64(0)
        if alone:
            end = min(size, i + (4 if byte >= 0xF0 else 3))
            while i < end:
                token = token * _BYTE_BASE + np.uint64(data[i])
                i += 1
            slot = tokens % n
            token = _mixed(token)
            gram = (gram - ring[slot] * top) * _GRAM_BASE + token
            ring[slot] = token
            tokens += 1
            if tokens >= n:
                out[written] = _mixed(gram)
                written += 1
            token = np.uint64(0)
            continue
        if byte != 0:
            token = token * _BYTE_BASE + np.uint64(byte)
            inside = True
        i += 1
    if 0 < tokens < n:
        out[0] = _mixed(gram)
        written = 1
    return written


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
