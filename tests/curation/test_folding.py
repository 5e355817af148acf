"""Folded bytes are the folded text, on every path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.curation.folding import folded_texts
from trace_flywheel.records.canonical import folded

pytestmark = pytest.mark.usefixtures("always_compiled")

ASCII = "".join(map(chr, range(128)))


@pytest.mark.parametrize("text", ["", " ", " A  b ", "x" * 100, ASCII * 2, f" {ASCII}\t\n ", " " * 500, "\u00df" * 100])
def test_known_texts(text: str) -> None:
    assert folded_texts([text.encode()]) == [folded(text).encode()]


@given(st.text(st.sampled_from(ASCII), min_size=100) | st.text(st.characters(exclude_categories=("Cs",))))
def test_any_text(text: str) -> None:
    assert folded_texts([text.encode()]) == [folded(text).encode()]


@given(st.lists(st.text(st.sampled_from(ASCII)) | st.text(st.characters(exclude_categories=("Cs",)))))
def test_texts_together_are_as_texts_alone(texts: list[str]) -> None:
    assert folded_texts([text.encode() for text in texts]) == [folded(text).encode() for text in texts]
