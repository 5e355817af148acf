"""The other places of a value that was found once: where its context is missing and where it is re-encoded."""

import base64
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from urllib.parse import quote

from trace_flywheel.redaction.needles import Needles
from trace_flywheel.redaction.validators import entropy
from trace_flywheel.redaction.wrapping import WIDTH, is_wrapped, wrapped

STRONG_LENGTH = 12
STRONG_ENTROPY = 3.0
FEW = 64
"""Needles of which it is asked whether a half of one stands on a line; of more it is taken for granted."""


def strong(value: str) -> bool:
    """Long and random enough that another occurrence is the same secret and no coincidence."""
    return len(value) >= STRONG_LENGTH and entropy(value) >= STRONG_ENTROPY and not value.isalpha()


def forms(value: str, base64_forms: Sequence[str] | None = None) -> list[str]:
    """The value as it may stand elsewhere: plain, URL-encoded, JSON-escaped once or twice, in hex, and inside base64
    (of either alphabet) at each alignment."""
    data = value.encode()
    url = quote(value, safe="")
    found = [value]
    if url != value:
        found += [url, re.sub(r"%..", lambda code: code[0].lower(), url)]
        escaped = json.dumps(value)[1:-1]
        found += [json.dumps(value, ensure_ascii=False)[1:-1], escaped, json.dumps(escaped)[1:-1]]
    found += [data.hex(), data.hex().upper(), *(in_base64(data) if base64_forms is None else base64_forms)]
    return [form for form in dict.fromkeys(found) if len(form) >= STRONG_LENGTH]


def in_base64(data: bytes) -> list[str]:
    """The characters of base64 that these bytes alone decide, at each alignment, in both alphabets."""
    found = []
    for shift in range(3):
        whole = base64.b64encode(bytes(shift) + data).decode().rstrip("=")
        inner = whole[(0, 2, 3)[shift] : len(whole) if (shift + len(data)) % 3 == 0 else -1]
        found += [inner, inner.replace("+", "-").replace("/", "_")]
    return found


class Known:
    """Strong values that were found, by every form in which they may stand elsewhere."""

    def __init__(self) -> None:
        self._of: dict[bytes, tuple[str, str]] = {}
        self._in_base64: dict[bytes, tuple[str, str]] = {}
        self._learnt: list[Needles] = []
        self._learnt_in_base64: list[Needles] = []
        """The keys of both, by when they were learnt: what is made to look for them is made once."""
        self._wrapped = False
        """Whether the record has base64 over several lines, which is asked once."""

    def held(self, data: bytes, values: Sequence[tuple[str, str]]) -> Iterator[int]:
        """Learns values (and the rules that found them): places in the data where a form of one begins that was not
        known before, or a block of base64 that holds a known value."""
        new: list[bytes] = []
        new_in_base64: list[bytes] = []
        for value, rule in values:
            in_64 = in_base64(value.encode())
            needles = [needle for form in forms(value, in_64) if (needle := form.encode()) not in self._of]
            new += needles
            for needle in needles:
                self._of[needle] = (value, rule)
            for form in in_64 if needles else ():
                if (needle := form.encode()) not in self._in_base64:
                    self._in_base64[needle] = (value, rule)
                    new_in_base64.append(needle)
        self._learnt.append(Needles(new))
        self._learnt_in_base64.append(Needles(new_in_base64))
        for at, _ in self._learnt[-1].places(data):
            yield at
        self._wrapped = self._wrapped or (may_be_wrapped(data, new_in_base64) and is_wrapped(data))
        for start, *_ in self._over_lines(data):
            yield start

    def spans(self, data: bytes) -> Iterator[tuple[int, int, str, str]]:
        """(start, end, value, rule) of every known value in the data, in no order; some may overlap."""
        for learnt in self._learnt:
            for at, needle in learnt.places(data):
                yield at, at + len(needle), *self._of[needle]
        yield from self._over_lines(data)

    def _over_lines(self, data: bytes) -> Iterator[tuple[int, int, str, str]]:
        blocks = list(wrapped(data)) if self._wrapped else []
        starts = list(accumulate((len(block.text) + 1 for block in blocks), initial=0))
        text = b"\n".join(block.text for block in blocks)
        for at, needle in (place for learnt in self._learnt_in_base64 for place in learnt.places(text)):
            which = bisect_right(starts, at) - 1
            if (span := blocks[which].span(at - starts[which], at - starts[which] + len(needle))) is not None:
                yield *span, *self._in_base64[needle]


def may_be_wrapped(data: bytes, needles: Sequence[bytes]) -> bool:
    """Whether one of these may stand in base64 over several lines: of 32 digits together no more than one line break
    keeps two apart, so that one half of them is on one line."""
    return len(needles) > FEW or any(
        part in data for n in needles for part in (n[: len(n[:WIDTH]) // 2], n[len(n[:WIDTH]) // 2 : WIDTH])
    )
