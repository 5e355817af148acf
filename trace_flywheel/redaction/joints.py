r"""Joints: places where a text spells a value in pieces, and how to undo them.

A line continuation (`ghp_abc\` and a line break), a concatenation of literals (`"ghp_" + "abc"`) and an escaped
character (`\u0067hp_abc`, `\x67hp_abc`, escaped any number of times) each hide a token from every pattern. A leaf with
a joint is looked at a second time without it; a finding over a joint is one span of the original text.
"""

import re
from bisect import bisect_right

import re2

_KINDS = (
    r"[^\s\\\"'`]{4}\\(?:\r?\n|\\\\n)\+?[^\s\\\"'`]{4}",
    r"[A-Za-z0-9_.-]{3}\\*(?:\"\s*\+\s*\\*\"|'\s*\+\s*\\*')[A-Za-z0-9_.-]{3}",
    r"\\u00[2-7][0-9a-fA-F]",
    r"\\x[2-7][0-9a-fA-F]",
)
DETECTORS = (_KINDS[0], r"[\"']\s*\+\s*\\*[\"']", *_KINDS[2:])
"""Hyperscan expressions, one a kind of joint: necessary conditions. Asked for the letters around a concatenation too,
the database of literals would take a tenth more time."""
_PRESENT = re2.compile("|".join(_KINDS).encode())
_JOINT = re.compile(
    rb"\\(?:\r?\n|\\\\n)\+?"
    rb"|(?<=[A-Za-z0-9_.-])\\*(?:\"\s*\+\s*\\*\"|'\s*\+\s*\\*')(?=[A-Za-z0-9_.-])"
    rb"|\\+(?:u00|x)([2-7][0-9a-fA-F])"
)


def has_joint(leaf: bytes) -> bool:
    """Whether a leaf that a detector pointed at has a joint between characters of a value."""
    return _PRESENT.search(leaf) is not None


class Joined:
    """A leaf without its joints, and where its bytes stood."""

    def __init__(self, leaf: bytes) -> None:
        joined, last = bytearray(), 0
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._shifts: list[int] = [0]
        for match in _JOINT.finditer(leaf):
            joined += leaf[last : match.start()]
            self._starts.append(len(joined))
            if match[1]:
                joined.append(int(match[1], 16))
            self._ends.append(len(joined))
            self._shifts.append(match.end() - len(joined))
            last = match.end()
        self.text = bytes(joined + leaf[last:])

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """Where `text[start:end]` stands in the leaf; None where no joint is inside."""
        before, inside = bisect_right(self._ends, start), bisect_right(self._starts, end - 1)
        if before == inside:
            return None
        return start + self._shifts[before], end + self._shifts[inside]
