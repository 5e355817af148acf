"""PostTrainLLM's own filters, bit for bit: for a first switch, where its counts must come out again.

Exact keys compare by canonical equivalence, as Swift strings do. Near-duplicates: windows of K Unicode scalars, FNV-1a
64 over their UTF-8, N permutations `((a*h + b) mod 2^64) mod (2^61 - 1)`; a row is dropped when its estimate against
any kept row reaches the threshold. Order decides: the first of two rows stays.
"""

import unicodedata
from collections.abc import Sequence

import numpy as np

OFFSET = np.uint64(0xCBF29CE484222325)
PRIME = np.uint64(0x100000001B3)
MERSENNE = np.uint64((1 << 61) - 1)
LCG_START, LCG_FACTOR, LCG_STEP = 0xC0FFEE1234ABCDEF, 6364136223846793005, 1442695040888963407
UNIT, RECORD = "\x1f", "\x1e"
"""ASCII separators inside a key."""

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


def first_of_each(keys: Sequence[str]) -> list[bool]:
    """Which keys stand for the first time."""
    seen: set[str] = set()
    return [not (key in seen or seen.add(key)) for key in keys]  # type: ignore[func-returns-value]  # add gives None


def near_first(texts: Sequence[str], threshold: float, shingle: int, permutations: int) -> list[float | None]:
    """For each text the estimate that dropped it, its highest against the kept ones; None where it is kept."""
    a, b = coefficients(permutations)
    kept = np.empty((0, permutations), dtype=np.uint64)
    answer: list[float | None] = []
    for text in texts:
        own = sketch(text, shingle, a, b)
        estimates = (kept == own).sum(axis=1) / permutations if permutations else np.zeros(len(kept))
        highest = float(estimates.max()) if len(kept) else None
        if highest is not None and highest >= threshold:
            answer.append(highest)
            continue
        answer.append(None)
        kept = np.vstack([kept, own])
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
    hashes = np.unique(window_hashes(text, shingle))
    return np.array(
        [((factor * hashes + shift) % MERSENNE).min() for factor, shift in zip(a, b, strict=True)], np.uint64
    )


def window_hashes(text: str, shingle: int) -> np.ndarray:
    """FNV-1a 64 of every window of `shingle` Unicode scalars; of the whole text where it is shorter (or empty)."""
    scalars = [character.encode("utf-8", "replace") for character in text]
    size = min(shingle, len(scalars))
    windows = max(len(scalars) - shingle, 0) + 1
    table = np.zeros((len(scalars), 4), dtype=np.uint64)
    lengths = np.array([len(scalar) for scalar in scalars], dtype=np.int64)
    for row, scalar in zip(table, scalars, strict=True):
        row[: len(scalar)] = list(scalar)
    hashes = np.full(windows, OFFSET, dtype=np.uint64)
    for offset in range(size):
        part, length = table[offset : offset + windows], lengths[offset : offset + windows]
        for byte in range(4):
            present = byte < length
            hashes = np.where(present, (hashes ^ part[:, byte]) * PRIME, hashes)
    return hashes
