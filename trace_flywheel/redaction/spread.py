"""The other places of a value that was found once: where its context is missing and where it is re-encoded."""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote

import re2

from trace_flywheel.redaction.validators import entropy

STRONG_LENGTH = 12
STRONG_ENTROPY = 3.0
FEW, TOGETHER = 64, 1000
"""Up to `FEW` needles are looked for one by one; more of them `TOGETHER` in one automaton, or a text full of secrets
would take time by its square."""


def strong(value: str) -> bool:
    """Long and random enough that another occurrence is the same secret and no coincidence."""
    return len(value) >= STRONG_LENGTH and entropy(value) >= STRONG_ENTROPY and not value.isalpha()


def forms(value: str) -> list[str]:
    """The value as it may stand elsewhere: plain, URL-encoded, JSON-escaped once or twice, in hex, and inside base64
    (of either alphabet) at each alignment."""
    data = value.encode()
    url, escaped = quote(value, safe=""), json.dumps(value)[1:-1]
    found = [value, url, re.sub(r"%..", lambda code: code[0].lower(), url)]
    found += [json.dumps(value, ensure_ascii=False)[1:-1], escaped, json.dumps(escaped)[1:-1]]
    found += [data.hex(), data.hex().upper()]
    for shift in range(3):
        whole = base64.b64encode(bytes(shift) + data).decode().rstrip("=")
        inner = whole[(0, 2, 3)[shift] : len(whole) if (shift + len(data)) % 3 == 0 else -1]
        found += [inner, inner.replace("+", "-").replace("/", "_")]
    return [form for form in dict.fromkeys(found) if len(form) >= STRONG_LENGTH]


def places(data: bytes, needles: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Where the needles stand in the data, in no order; overlapping ones may be left out."""
    if len(needles) <= FEW:
        for needle in needles:
            at = data.find(needle)
            while at >= 0:
                yield at, needle
                at = data.find(needle, at + len(needle))
        return
    ordered = sorted(needles, key=len, reverse=True)
    for first in range(0, len(ordered), TOGETHER):
        for match in re2.finditer(b"|".join(map(re2.escape, ordered[first : first + TOGETHER])), data, _options()):
            yield match.start(), match.group()


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = 64 << 20
    return options
