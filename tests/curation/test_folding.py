"""Folded bytes are the folded text, on every path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.curation.folding import SHORT, folded_bytes
from trace_flywheel.records.canonical import folded

pytestmark = pytest.mark.usefixtures("always_compiled")

ASCII = "".join(map(chr, range(128)))


@pytest.mark.parametrize(
    "text", ["", " ", " A  b ", "x" * SHORT, ASCII * 2, f" {ASCII}\t\n ", " " * 500, "\u00df" * SHORT]
)
def test_known_texts(text: str) -> None:
    assert folded_bytes(text) == folded(text).encode()


@given(st.text(st.sampled_from(ASCII), min_size=SHORT) | st.text(st.characters(exclude_categories=("Cs",))))
def test_any_text(text: str) -> None:
    assert folded_bytes(text) == folded(text).encode()
