r"""Base64 over several lines, as `base64`, MIME, PEM and YAML write it: the lines put together, to be looked through.

Lines end in a line break or in one that is escaped (`\n`, in JSON; `\\n`, in JSON in JSON), and begin with what quotes
them: indentation, `> `, `| `, `# `, the sign of a diff, a quotation mark. A sign of a diff is also a digit of base64: a
block whose every line begins with it is read without it.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache

import re2

from trace_flywheel.redaction.engines import Engine, best_engine
from trace_flywheel.redaction.validators import mixed

WIDTH = 32
"""Characters of a line, all but the last: nobody wraps narrower."""
_DIGITS = "[A-Za-z0-9+/_-]"
_BREAK = r"""[\\"'`,]{0,4}(?:\r?\n|\\+r\\+n|\\+n)"""
_LEAD = r"""[ \t>|#*:"'`\\]{0,48}"""
_SIGN = r"(?:[+-][ \t]{0,24})?"
_LINE = f"{_DIGITS}{{{WIDTH}}}{_BREAK}{_LEAD}{_SIGN}"
_CLOSE = r"""[\\"'`\r\n,;<)}\]]"""
"""What may stand after the last line: where a word follows, the line before was a hash that ended one."""
DETECTOR = f"{_LINE}{_DIGITS}+={{0,2}}{_CLOSE}"
_BLOCK = re2.compile(
    f"((?:{_DIGITS}{{{WIDTH},}}{_BREAK}{_LEAD}{_SIGN})+{_DIGITS}{{2,}}={{0,2}})(?:{_CLOSE}|\\z)".encode()
)
_JOIN = re.compile((_BREAK + _LEAD).encode())
_SIGNED = {sign: re.compile((_BREAK + _LEAD + f"[{sign}][ \t]{{0,24}}").encode()) for sign in ("+", "-")}
_FIRST = re.compile(f"{_DIGITS}{{{WIDTH},}}={{0,2}}".encode())
_NEXT = re.compile(f"({_BREAK})({_LEAD}){_SIGN}({_DIGITS}{{2,}}={{0,2}})(?={_CLOSE}|\\Z)".encode())
_QUOTE = re.compile(rb"[\"'`]")
_ASSIGNED = re.compile(rb"""(?<==)\\*["'`][^\s\\"'`,;:)}\]<]|(?<!=)[,;][ \t]*[\w"'`]""")
"""Behind a name on a line of its own: its value, in quotes behind `=` or in the next cell."""
_PAIRED = re.compile(rb"""\\*["'`][ \t]*(?:[:=]|,[ \t]*\\*["'`\w])""")
"""Behind a name in quotes: its value."""


class Block:
    """Base64 without its line breaks, and where its bytes stood."""

    def __init__(self, data: bytes, start: int, end: int, joint: re.Pattern[bytes]) -> None:
        self._begins, self._places = [0], [start]
        text, last = bytearray(), start
        for match in joint.finditer(data, start, end):
            text += data[last : match.start()]
            last = match.end()
            self._begins.append(len(text))
            self._places.append(last)
        self.text = bytes(text + data[last:end])

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """Where `text[start:end]` stands in the data; None where it stands on one line."""
        first, last = bisect_right(self._begins, start) - 1, bisect_right(self._begins, end - 1) - 1
        if first == last:
            return None
        return start - self._begins[first] + self._places[first], end - self._begins[last] + self._places[last]


def continued(data: bytes, start: int, end: int, high: int) -> int:
    """Where a value that begins as a line of base64 ends: behind the following lines that are as long, and behind a
    shorter one that closes them by its padding or its letters and digits. A line that names another value is none."""
    width = end - start
    if not _FIRST.fullmatch(data, start, end):
        return end
    while (match := _NEXT.match(data, end, high)) is not None and not _names_another(match, data, high):
        line = match[3]
        if len(line) not in (width, width - 1):  # what looks like the sign of a diff may be the first digit
            closes = len(line) < width and (line.endswith(b"=") or mixed(line.decode()))
            return match.end(3) if closes else end
        end = match.end(3)
    return end


def _names_another(match: re.Match[bytes], data: bytes, high: int) -> bool:
    """Whether the line is the name of the next value: `="` reads as padding and a quotation mark that closes. Lines of
    one value are literals all, or none is."""
    literal = bool(_QUOTE.search(match[1]))
    if literal != bool(_QUOTE.search(match[2])):
        return True
    return (_PAIRED if literal else _ASSIGNED).match(data, match.end(3), high) is not None


def is_wrapped(data: bytes) -> bool:
    """Whether there may be such a run: a necessary condition, at the speed of a detector."""
    return bool(_engine().hits(data + b"\n"))


@cache
def _engine() -> Engine:
    return best_engine()([("wrapped", DETECTOR)])


def wrapped(data: bytes) -> Iterator[Block]:
    """Every run of base64 over more than one line."""
    for match in _BLOCK.finditer(data):
        start, end = match.span(1)
        yield Block(data, start, end, _JOIN)
        for sign in _SIGNED.values():
            if len(sign.findall(data, start, end)) == len(_JOIN.findall(data, start, end)):
                yield Block(data, start, end, sign)
