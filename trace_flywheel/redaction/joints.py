r"""Joints: places where a text spells a value in pieces, and how to undo them.

A line continuation (`ghp_abc\` and a line break), a concatenation of literals (`"ghp_" + "abc"`), an escaped character
(`\u0067hp_abc`, `\x67hp_abc`, escaped any number of times) and one that is URL-encoded (`ann%40contoso.com`, and the
blanks of `card=4111+1111+1111+1111`) each hide a value from every pattern. A leaf with a joint is looked at a second
time without it; what is found then, over a joint or beside one that hid its name, is one span of the original text.
"""

import re
from bisect import bisect_right

import re2

_KINDS = (
    r"[^\s\\\"'`]{4}\\(?:\r?\n|\\\\n)\+?[^\s\\\"'`]{4}",
    r"[A-Za-z0-9_.-]{3}\\*(?:\"\s*\+\s*\\*\"|'\s*\+\s*\\*')[A-Za-z0-9_.-]{3}",
    r"\\u00[2-7][0-9a-fA-F]",
    r"\\x[2-7][0-9a-fA-F]",
    r"%(?:25)*[2-7][0-9a-fA-F]",
    r"(?:^|[?&\s\"'])[A-Za-z][A-Za-z0-9_.%-]{0,40}=[A-Za-z0-9_.%()-]*\+[0-9A-Z(%]",
    r"[=(]\s*[\"'][A-Za-z0-9_.+/=~-]{4,}[\"']\n {0,40}[\"'][A-Za-z0-9_.+/=~-]",
)
DETECTORS = (
    _KINDS[0],
    r"[\"']\s*\+\s*\\*[\"']",
    *_KINDS[2:5],
    r"\d\+[0-9A-Z]",
    r"(?:\"\n {0,40}\"|'\n {0,40}')[A-Za-z0-9_]",
)
"""Hyperscan expressions, one a kind of joint: necessary conditions. Asked for the letters around a concatenation too,
the database of literals would take a tenth more time."""
SPELT_DETECTOR = r"\\u(?:[^0]|0[^0]|00[^01])"
"""A letter spelt as an escape. A JSON writer spells control characters so, and nothing else."""
_PRESENT = re2.compile("|".join(_KINDS).encode())
_JOINT = re.compile(
    rb"\\(?:\r?\n|\\\\n)\+?"
    rb"|(?<=[A-Za-z0-9_.-])\\*(?:\"\s*\+\s*\\*\"|'\s*\+\s*\\*')(?=[A-Za-z0-9_.-])"
    rb"|(?<!\\)\\+(?:u00|x)([2-7][0-9a-fA-F])"
    rb"|%(?:25)*([2-7][0-9a-fA-F]|[c-fC-F][0-9a-fA-F](?=%)|[89abAB][0-9a-fA-F])"
    rb"|(?<=[A-Za-z0-9)])(\+)(?=[A-Za-z0-9(%])"
    rb"|(?<=[A-Za-z0-9_.+/=~-])([\"']\n {0,40}[\"'])(?=[A-Za-z0-9_.+/=~-])"
)
_ADJACENT = re.compile(rb"[=(]\s*([\"'][A-Za-z0-9_.+/=~-]{4,}(?:[\"']\n {0,40}[\"'][A-Za-z0-9_.+/=~-]+)+)")
"""Literals on lines one below the other, which Python and C read as one; so do no tables."""
_FORM = re.compile(rb"(?:^|[?&\s\"'])[A-Za-z][A-Za-z0-9_.%-]{0,40}=((?:[A-Za-z0-9_.()*-]|%[0-9a-fA-F]{2}|\+)+)")
"""A field of a form, or of a query: a plus sign in its value is a blank, unless it holds an e-mail address."""


def has_joint(leaf: bytes) -> bool:
    """Whether a leaf that a detector pointed at has a joint between characters of a value."""
    return _PRESENT.search(leaf) is not None


class _Spans:
    """Asked for places in their order."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self._spans, self._next = spans, 0

    def __contains__(self, place: int) -> bool:
        while self._next < len(self._spans) and self._spans[self._next][1] <= place:
            self._next += 1
        return self._next < len(self._spans) and self._spans[self._next][0] <= place


class Joined:
    """A leaf without its joints, and where its bytes stood."""

    def __init__(self, leaf: bytes) -> None:
        joined, last = bytearray(), 0
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._shifts: list[int] = [0]
        forms, literals = _Spans(_forms(leaf)), _Spans([match.span(1) for match in _ADJACENT.finditer(leaf)])
        for match in _JOINT.finditer(leaf):
            if (match[3] and match.start() not in forms) or (match[4] and match.start() not in literals):
                continue
            joined += leaf[last : match.start()]
            self._starts.append(len(joined))
            if match[3]:
                joined += b" "
            elif escaped := match[1] or match[2]:
                joined.append(int(escaped, 16))
            self._ends.append(len(joined))
            self._shifts.append(match.end() - len(joined))
            last = match.end()
        self.text = bytes(joined + leaf[last:])

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where `text[start:end]` stands in the leaf."""
        before, inside = bisect_right(self._ends, start), bisect_right(self._starts, end - 1)
        return start + self._shifts[before], end + self._shifts[inside]


def _forms(leaf: bytes) -> list[tuple[int, int]]:
    """Where the values of form fields stand that have blanks."""
    return [
        match.span(1)
        for match in _FORM.finditer(leaf)
        if b"+" in match[1] and b"%40" not in match[1] and any(c in b"0123456789" for c in match[1])
    ]
