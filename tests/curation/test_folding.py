"""Folded bytes are the folded text, on every path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.curation.folding import folded_texts
from trace_flywheel.curation.message_hashes import _PER_ATTEMPT
from trace_flywheel.records.canonical import folded

pytestmark = pytest.mark.usefixtures("always_compiled")

ASCII = "".join(map(chr, range(128)))


@pytest.mark.parametrize("text", ["", " ", " A  b ", "x" * 100, ASCII * 2, f" {ASCII}\t\n ", " " * 500, "\u00df" * 100])
def test_known_texts(text: str) -> None:
    assert folded_texts([text.encode()]).texts == [folded(text).encode()]


@given(st.text(st.sampled_from(ASCII), min_size=100) | st.text(st.characters(exclude_categories=("Cs",))))
def test_any_text(text: str) -> None:
    assert folded_texts([text.encode()]).texts == [folded(text).encode()]


@given(st.lists(st.text(st.sampled_from(ASCII)) | st.text(st.characters(exclude_categories=("Cs",)))))
def test_texts_together_are_as_texts_alone(texts: list[str]) -> None:
    assert folded_texts([text.encode() for text in texts]).texts == [folded(text).encode() for text in texts]


MADE_UP = st.sampled_from(
    [
        "8e12451d-ab8a-464f-a9c8-8d4d63a06f8b",
        "8E12451D-AB8A-464F-A9C8-8D4D63A06F8B",
        "@8e12451dab8a",
        "@8E12451DAB8A",
        "2026-02-09T12:15:32Z",
        "2026-02-09 12:22:47.123+01:00",
    ]
)
PIECE = MADE_UP | st.sampled_from([" ", "-", "@", "a", "G", "\n", "é", "2026-02-09", "8e12451d-ab8a-464f"])


@given(st.lists(st.lists(PIECE).map("".join), min_size=1))
def test_a_text_that_is_not_marked_holds_nothing_made_up(texts: list[str]) -> None:
    marks = folded_texts([text.encode() for text in texts]).made_up
    for text, marked in zip(texts, marks, strict=True):
        assert marked or _PER_ATTEMPT.search(text.encode()) is None


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("a plain text with - and @ and well-known words", False),
        ("drwxr-xr-x root@host e-mail@x", False),
        ("on 2026-02-09", True),
        ("root@8e12451dab8a:~#", True),
        ("é", True),
        ("-1", False),
        ("1-", False),
        ("", False),
    ],
)
def test_which_texts_may_hold_what_is_made_up(text: str, marked: bool) -> None:
    assert folded_texts([b"0-", text.encode(), b"0"]).made_up == [False, marked, False]
