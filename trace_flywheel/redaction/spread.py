"""The other places of a value that was found once: where its context is missing and where it is re-encoded."""

import base64
import json
from urllib.parse import quote

from trace_flywheel.redaction.validators import entropy

STRONG_LENGTH = 12
STRONG_ENTROPY = 3.0


def strong(value: str) -> bool:
    """Long and random enough that another occurrence is the same secret and no coincidence."""
    return len(value) >= STRONG_LENGTH and entropy(value) >= STRONG_ENTROPY and not value.isalpha()


def forms(value: str) -> list[str]:
    """The value as it may stand elsewhere: plain, URL-encoded, JSON-escaped, and inside base64 at each alignment."""
    data = value.encode()
    found = [value, quote(value, safe=""), json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1]]
    for shift in range(3):
        whole = base64.b64encode(bytes(shift) + data).decode().rstrip("=")
        inner = whole[(0, 2, 3)[shift] : len(whole) if (shift + len(data)) % 3 == 0 else -1]
        found += [inner, inner.replace("+", "-").replace("/", "_")]
    return [form for form in dict.fromkeys(found) if len(form) >= STRONG_LENGTH]
