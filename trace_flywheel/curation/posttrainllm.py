"""PostTrainLLM's own filters, bit for bit: for a first switch, where its counts must come out again.

Exact keys compare by canonical equivalence, as Swift strings do. Near-duplicates: windows of K Unicode scalars, FNV-1a
64 over their UTF-8, N permutations `((a*h + b) mod 2^64) mod (2^61 - 1)`; a row is dropped when its estimate against
any kept row reaches the threshold. Order decides: the first of two rows stays.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from trace_flywheel.curation.compiled import compiled, pays

OFFSET = np.uint64(0xCBF29CE484222325)
PRIME = np.uint64(0x100000001B3)
MERSENNE = np.uint64((1 << 61) - 1)
LCG_START, LCG_FACTOR, LCG_STEP = 0xC0FFEE1234ABCDEF, 6364136223846793005, 1442695040888963407
UNIT, RECORD = "\x1f", "\x1e"
"""ASCII separators inside a key."""
_AT_ONCE = 1 << 14
"""Hashes that are permuted together: what fits a processor's cache."""

Said = tuple[str, bool, str]
"""(role, supervised, content) of one message."""


def is_tool_echo(answer: str) -> bool:
    """Whether its rule takes an answer for a tool call. A test of spelling: `"tool" :` with a blank passes."""
    text = answer.strip()
    return text.startswith("{") and '"tool":' in text and '"answer":' not in text


def answer_key(user: str, assistant: str) -> str:
    """Identity of an answer-only row; task and source are not part of it."""
    return unicodedata.normalize("NFC", f"{user}{UNIT}{assistant}")


def serialized(messages: Sequence[Said]) -> str:
    """A conversation as one text: what is sketched of a trajectory's context."""
    return RECORD.join(
        f"{role}{UNIT}{'true' if supervised else 'false'}{UNIT}{content}" for role, supervised, content in messages
    )


def trajectory_key(messages: Sequence[Said], ids: Sequence[Sequence[int] | None] = ()) -> str:
    """Identity of a trajectory row, its target included. `ids`: the token ids of each message, part of it in its newest
    exporter and not in those before."""
    told = "".join(f"{RECORD}{UNIT.join(map(str, own or ()))}" for own in ids)
    return unicodedata.normalize("NFC", serialized(messages)) + told


def first_of_each(keys: Iterable[str]) -> list[bool]:
    """Which keys stand for the first time. A key may be as long as a conversation: its digest is remembered."""
    seen: set[bytes] = set()
    first = []
    for key in keys:
        digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        first.append(digest not in seen)
        seen.add(digest)
    return first


def near_first(texts: Iterable[str], threshold: float, shingle: int, permutations: int) -> list[float | None]:
    """For each text the estimate that dropped it, its highest against the kept ones; None where it is kept.

    A text that continues the one before, as the contexts of one recording do, is sketched from where that one ends.
    """
    if not permutations:  # every estimate is 0
        return [None if i == 0 or threshold > 0 else 0.0 for i, _ in enumerate(texts)]
    a, b = coefficients(permutations)
    kept = np.empty((0, permutations), dtype=np.uint64)
    n = 0
    before, known = "", np.empty(0, dtype=np.uint64)
    answer: list[float | None] = []
    for text in texts:
        if len(before) >= shingle and text.startswith(before):
            own = known if len(text) == len(before) else minima(text[len(before) - shingle + 1 :], shingle, a, b, known)
        else:
            own = sketch(text, shingle, a, b)
        before, known = text, own
        highest = float(((kept[:n] == own).sum(axis=1) / permutations).max()) if n else None
        if highest is not None and highest >= threshold:
            answer.append(highest)
            continue
        answer.append(None)
        if n == len(kept):
            kept = np.vstack([kept, np.empty((n + 64, permutations), dtype=np.uint64)])
        kept[n] = own
        n += 1
    return answer


def coefficients(permutations: int) -> tuple[np.ndarray, np.ndarray]:
    """(a, b) of each permutation, from its linear congruential generator."""
    state = LCG_START
    pairs = []
    for _ in range(permutations):
        state = (state * LCG_FACTOR + LCG_STEP) % (1 << 64)
        a = (state | 1) % int(MERSENNE)
        state = (state * LCG_FACTOR + LCG_STEP) % (1 << 64)
        pairs.append((a, state % int(MERSENNE)))
    table = np.array(pairs, dtype=np.uint64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def sketch(text: str, shingle: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The minimum of each permutation over the text's windows, uint64."""
    return minima(text, shingle, a, b, np.full(len(a), np.iinfo(np.uint64).max))


def minima(text: str, shingle: int, a: np.ndarray, b: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The sketch of what has the sketch `known` and the text's windows besides."""
    hashes = np.unique(window_hashes(text, shingle))
    lowest = known.copy()
    for start in range(0, len(hashes), _AT_ONCE):
        part = hashes[start : start + _AT_ONCE]
        own = [((factor * part + shift) % MERSENNE).min() for factor, shift in zip(a, b, strict=True)]
        lowest = np.minimum(lowest, np.array(own, dtype=np.uint64))
    return lowest


def window_hashes(text: str, shingle: int) -> np.ndarray:
    """FNV-1a 64 of every window of `shingle` Unicode scalars; of the whole text where it is shorter (or empty)."""
    data = np.frombuffer(text.encode("utf-8", "replace"), dtype=np.uint8)
    starts = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
    size = min(shingle, len(starts) - 1)
    if pays("posttrainllm", len(data) * shingle * 2e-7):
        return _windows(data, starts, size, OFFSET, PRIME)
    hashes = np.full(len(starts) - size, OFFSET, dtype=np.uint64)
    for offset in range(size):
        first, end = starts[offset : offset + len(hashes)], starts[offset + 1 : offset + 1 + len(hashes)]
        for byte in range(4):  # of a scalar
            at = first + byte
            present = at < end
            hashes = np.where(present, (hashes ^ data[np.minimum(at, len(data) - 1)]) * PRIME, hashes)
    return hashes


@compiled
def _windows(data: np.ndarray, starts: np.ndarray, size: int, offset: np.uint64, prime: np.uint64) -> np.ndarray:
    hashes = np.empty(len(starts) - size, dtype=np.uint64)
    for window in range(len(hashes)):
        value = offset
        for byte in range(starts[window], starts[window + size]):
            value = (value ^ np.uint64(data[byte])) * prime
        hashes[window] = value
    return hashes
