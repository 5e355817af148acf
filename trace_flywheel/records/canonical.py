"""One byte form for every value that is hashed or compared: identity is content, never a position or a spelling.

Canonical JSON has sorted keys, no blanks, UTF-8, NFC text, and one spelling per number (`5000.0` is `5000`).
"""

import hashlib
import math
import re
import unicodedata
from typing import Any

import orjson

_FRACTION = re.compile(rb"[0-9][.eE]")
"""In every JSON number that has another spelling (and in some texts, which are looked at more closely)."""


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


def canonical_json(value: Any) -> bytes:
    """Canonical JSON bytes of plain data (dict, list, str, int, float, bool, None)."""
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # keys that are no text
        return orjson.dumps(canonical_value(value), option=orjson.OPT_SORT_KEYS)
    if data.isascii() and _FRACTION.search(data) is None:
        return data
    return data if _is_canonical(value) else orjson.dumps(canonical_value(value), option=orjson.OPT_SORT_KEYS)


def _is_canonical(value: Any) -> bool:
    """Whether `canonical_value` would change nothing: ASCII is NFC, and only floats have several spellings."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if kind is str:
            if not one.isascii():
                return False
        elif kind is dict:
            waiting += one
            waiting += one.values()
        elif kind is list or kind is tuple:
            waiting += one
        elif not (kind is int or kind is bool or one is None):
            return False
    return True


def sha256_hex(data: bytes) -> str:
    """Hex digest of bytes."""
    return hashlib.sha256(data).hexdigest()


def content_id(value: Any, length: int = 32) -> str:
    """The first `length` hex digits of the canonical JSON's sha256: row ids, dataset versions, context hashes."""
    return sha256_hex(canonical_json(value))[:length]


def canonical_arguments(text: str) -> str:
    """A tool call's arguments in one spelling; text that is no JSON stays as it is."""
    try:
        value = orjson.loads(text) if text.strip() else {}
    except orjson.JSONDecodeError:
        return text
    return canonical_json({} if value is None else value).decode()


def folded(text: str) -> str:
    """Case-folded, white space collapsed: the text that exact duplicates agree on."""
    return " ".join(text.casefold().split())
