"""One pass over the data finds what a search for each needle finds."""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import DataObject, SearchStrategy, binary, data, integers, lists, sampled_from

from trace_flywheel.redaction import needles as module
from trace_flywheel.redaction.needles import FEW, WINDOW, Needles


def searched(data: bytes, needles: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    for needle in needles:
        for match in re.finditer(re.escape(needle), data):
            yield match.start(), needle


@pytest.fixture(params=[0, 1, 8], ids="crowds of more than {}".format)
def always_one_pass(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(module, "FEW", 0)
    monkeypatch.setattr(module, "_CROWD", request.param)


# A long word of one or two letters repeats itself, and overlaps with itself and with others that begin or end alike.
def words(smallest: int) -> SearchStrategy[bytes]:
    return binary(min_size=smallest, max_size=24).map(lambda raw: bytes(b"ab"[byte & 1] for byte in raw))


@pytest.mark.usefixtures("always_one_pass")
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data())
def test_one_pass_finds_what_searches_find(given: DataObject) -> None:
    smallest = given.draw(sampled_from([1, WINDOW, 12]))
    needles = given.draw(lists(words(smallest), max_size=12))
    # Needles whole, cut off and doubled, side by side: everything that may be taken for another.
    pieces = [b"a", b"ab", *needles, *(n[:-1] for n in needles), *(n[1:] for n in needles), *(n + n for n in needles)]
    text = b"".join(given.draw(lists(sampled_from(pieces), max_size=12)))
    assert list(Needles(needles).places(text)) == list(searched(text, needles))


@pytest.mark.usefixtures("always_one_pass")
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(integers(0, 40), lists(binary(min_size=12, max_size=40), max_size=20))
def test_data_shorter_than_a_window_and_any_bytes(size: int, needles: list[bytes]) -> None:
    text = b"".join(needles)
    for piece in (text[:size], text[-size:], text):
        assert list(Needles(needles).places(piece)) == list(searched(piece, needles))


@pytest.mark.usefixtures("always_one_pass")
def test_needles_that_begin_end_or_are_all_but_alike() -> None:
    ids = [sha256(str(i).encode()).hexdigest() for i in range(200)]
    needles = [n.encode() for i in ids for n in (f"{'h' * 40}{i}", f"{i}{'t' * 40}", f"{'h' * 40}{i}{'t' * 40}")]
    needles += [b"x" * n for n in range(12, 60)]
    text = b" ".join([*needles[::2], b"x" * 500, *needles[1::2], b"h" * 40 + b"t" * 40])
    assert list(Needles(needles).places(text)) == list(searched(text, needles))


def test_data_longer_than_what_is_looked_up_together() -> None:
    needles = [sha256(str(i).encode()).hexdigest().encode() for i in range(FEW + 1)]
    # One stands over the border of two lots.
    text = b"".join(b"." * (module._AT_ONCE - 20) + needle for needle in (*reversed(needles), needles[0]))
    assert list(Needles(needles).places(text)) == list(searched(text, needles))


def test_no_needle_and_no_data() -> None:
    assert list(Needles([]).places(b"text")) == list(Needles([b"needle"]).places(b"")) == []
