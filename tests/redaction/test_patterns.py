"""Both ways of asking RE2 say the same, and neither looks outside of what it is given."""

import re2
from hypothesis import given
from hypothesis import strategies as st

from tests.redaction.texts import EXAMPLES, texts
from trace_flywheel.redaction.patterns import by_match, searching
from trace_flywheel.redaction.rules import rules_of

PATTERNS = [re2.compile(rule.pattern().encode()) for rule in rules_of("all")]


def test_spans_of_the_match_and_its_groups() -> None:
    pattern = re2.compile(rb"(k)=(?:(\d)|(x))")
    for search in (searching(pattern), by_match(pattern)):
        assert list(search(b"..k=x..", 0, 7) or ()) == [(2, 5), (2, 3), (-1, -1), (4, 5)]
        assert search(b"..k=x..", 3, 7) is None
        assert search(b"..k=x..", 0, 4) is None
        assert search(b"..k=x", 0, 99) == search(b"..k=x", 0, 5)


@given(st.one_of(texts, st.sampled_from(EXAMPLES)), st.integers(0, 40), st.integers(0, 80))
def test_both_ways_agree(text: str, start: int, stop: int) -> None:
    data = text.encode("utf-8", "replace")
    start = min(start, len(data))
    for pattern in PATTERNS:
        spans, wanted = (way(pattern)(data, start, max(start, stop)) for way in (searching, by_match))
        assert (spans and list(spans)) == wanted


def test_a_package_that_hides_what_is_inside_is_asked_by_matches() -> None:
    class Wrapped:
        groups = 0

        def search(self, data: bytes, start: int, stop: int) -> object:
            return re2.compile(b"b").search(data, start, stop)

    assert searching(Wrapped())(b"abc", 0, 3) == [(1, 2)]
