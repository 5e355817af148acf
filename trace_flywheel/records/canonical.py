"""One byte form for every value that is hashed or compared: identity is content, never a position or a spelling.

Canonical JSON has sorted keys, no blanks, UTF-8, NFC text, and one spelling per number (`5000.0` is `5000`).
"""

import hashlib
import math
import re
import unicodedata
from functools import lru_cache
from typing import Any

import orjson

SHORT = 4_096
"""Characters of arguments that are remembered: the calls of one rollout are asked for more than once."""
_WHOLE = re.compile(rb"\.0(?:[,}\]]|\Z)")
"""In every JSON number that is whole and written as a fraction, and in some texts, which are looked at closely."""


def canonical_value(value: Any) -> Any:
    """The value with NFC strings and integral floats as integers; a non-finite float becomes null."""
    if isinstance(value, str):
        return value if value.isascii() else unicodedata.normalize("NFC", value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, dict):
        return {canonical_value(str(k)): canonical_value(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [canonical_value(v) for v in value]
    return value


def is_nfc(data: bytes) -> bool:
    """Whether UTF-8 text is what NFC makes of it."""
    return data.isascii() or unicodedata.is_normalized("NFC", data.decode())


def canonical_json(value: Any) -> bytes:
    """Canonical JSON bytes of plain data (dict, list, str, int, float, bool, None)."""
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # keys that are no text
        return orjson.dumps(canonical_value(value), option=orjson.OPT_SORT_KEYS)
    if _WHOLE.search(data) is None and is_nfc(data):
        return data
    return orjson.dumps(canonical_value(value), option=orjson.OPT_SORT_KEYS)


def sha256_hex(data: bytes) -> str:
    """Hex digest of bytes."""
    return hashlib.sha256(data).hexdigest()


def content_id(value: Any, length: int = 32) -> str:
    """The first `length` hex digits of the canonical JSON's sha256: row ids, dataset versions, context hashes."""
    return sha256_hex(canonical_json(value))[:length]


def canonical_arguments(text: str) -> str:
    """A tool call's arguments in one spelling; text that is no JSON stays as it is."""
    return _short_arguments(text) if len(text) <= SHORT else _arguments(text)


def _arguments(text: str) -> str:
    try:
        value = orjson.loads(text) if text.strip() else {}
    except orjson.JSONDecodeError:
        return text
    return canonical_json({} if value is None else value).decode()


_short_arguments = lru_cache(maxsize=256)(_arguments)


def folded(text: str) -> str:
    """Case-folded, white space collapsed: the text that exact duplicates agree on."""
    return " ".join(text.casefold().split())
