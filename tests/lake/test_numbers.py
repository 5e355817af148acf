"""Numbers of names: those of a dict, in a quarter of its memory."""

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.lake.numbers import Numbers
from trace_flywheel.lake.order import ranks

NAMES, MOST = 3_000, 100
"""Bytes a name: twice what it was when this was written. A dict of them took 190."""


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3)))
def test_a_dict_says_the_same(names: list[str]) -> None:
    known: dict[str, int] = {}
    numbers = Numbers()
    for name in names:
        assert numbers.get(name) == known.get(name)
        assert numbers.add(name) == known.setdefault(name, len(known))
        assert name in numbers
    assert list(numbers) == list(known)
    assert [numbers[n] for n in range(len(numbers))] == list(known)
    assert numbers.get("nobody") is None
    assert "nobody" not in numbers
    assert numbers.ranks().tolist() == ranks(list(known)).tolist()


def test_names_of_one_length_are_ranked_as_texts() -> None:
    assert Numbers(["zz", "ü", "ab", "zy"]).ranks().tolist() == [2, 3, 0, 1]
    assert Numbers(["00ff", "000f", "f000", "ff00"]).ranks().tolist() == [1, 0, 2, 3]
    assert Numbers().ranks().tolist() == []


def test_a_name_takes_little_more_than_its_letters() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        numbers = Numbers(f"{n * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128):032x}" for n in range(NAMES))
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(numbers) == NAMES
    assert np.array_equal(np.sort(numbers.ranks()), np.arange(NAMES))
    assert held / NAMES < MOST, f"{held / NAMES:.0f} bytes a name"
