"""RE2 as the scanner asks it: where the groups of the leftmost match stand, as plain pairs.

On a window of a few hundred bytes google-re2's own match object costs more than the search. Where the object behind a
pattern can be asked itself, it is; a version of the package that hides it is asked as everybody asks it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import re2

Spans = Sequence[tuple[int, int]]
Search = Callable[[bytes, int, int], Spans | None]
"""(data, start, stop) -> spans of the whole match and of every group, (-1, -1) for one that took no part."""
_ANYWHERE = getattr(getattr(re2, "_Anchor", None), "UNANCHORED", None)


def searching(pattern: Any) -> Search:
    """The pattern's search."""
    inner = getattr(pattern, "_regexp", None)
    if inner is None or _ANYWHERE is None:
        return by_match(pattern)
    find, anywhere = inner.Match, _ANYWHERE

    def search(data: bytes, start: int, stop: int) -> Spans | None:
        spans: Spans = find(anywhere, data, start, min(stop, len(data)))
        return None if spans[0][0] < 0 else spans

    return search


def by_match(pattern: Any) -> Search:
    """The same by match objects."""
    groups = range(pattern.groups + 1)

    def search(data: bytes, start: int, stop: int) -> Spans | None:
        match = pattern.search(data, start, stop)
        return None if match is None else [match.span(group) for group in groups]

    return search
