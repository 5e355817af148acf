"""Text as the search for goldens sees it: tokens, n-grams and what of a rollout could be learned.

Tokens are case-folded runs of letters, digits and `_` (single characters in scripts without spaces): punctuation and
layout do not hide a golden. Tool output is not in it: nobody learns it.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson

from trace_flywheel.curation.token_kernel import ngram_hashes, utf8
from trace_flywheel.records.message import Message, text_of

NGRAM = 8
"""Tokens of an n-gram: eight in a row are seldom chance (8 to 13 are in use for decontamination)."""
_PUNCTUATION = re.compile(r"[^\w\x00-\x7f]+")


def _word_table() -> np.ndarray:
    table = np.zeros(256, dtype=np.uint8)
    for byte in b"0123456789_abcdefghijklmnopqrstuvwxyz":
        table[byte] = byte
    table[65:91] = table[97:123]
    table[128:] = np.arange(128, 256)
    return table


_WORDS = _word_table()


def ngrams(text: str) -> np.ndarray:
    """64-bit hashes of the n-grams, in text order."""
    return ngram_hashes(utf8(text, _PUNCTUATION), _WORDS, NGRAM)


def token_hashes(text: str) -> np.ndarray:
    """Token hashes in order: equal for texts that differ in case, punctuation and layout only."""
    return ngram_hashes(utf8(text, _PUNCTUATION), _WORDS, 1)


def stands_in(needle: bytes, haystack: bytes) -> bool:
    """Whether one sequence of 8-byte token hashes is part of the other."""
    at = haystack.find(needle)
    while at % 8 and at != -1:
        at = haystack.find(needle, at + 1)
    return at != -1


def learnable(message: Message) -> Iterator[str]:
    """Reasoning, content and the text inside tool-call arguments."""
    yield message.reasoning or ""
    yield text_of(message.content)
    for call in message.tool_calls:
        try:
            yield from _strings(orjson.loads(call.arguments))
        except orjson.JSONDecodeError:
            yield call.arguments


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def spelt(grams: np.ndarray) -> str | None:
    """n-grams as text for the index, 16 hex digits each; None for none."""
    return grams.astype(">u8").tobytes().hex() or None


def grams_of(text: str) -> np.ndarray:
    """The n-grams that `spelt` wrote."""
    return np.frombuffer(bytes.fromhex(text), dtype=">u8").astype(np.uint64)
