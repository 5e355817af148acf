"""Lists of an index are put together once: a buffer that moves when it is nearly full stands there twice."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.flow.columns import _Lists


@given(st.lists(st.lists(st.integers(0, 40_000), max_size=4), max_size=4))
def test_lists_are_what_was_added(pieces: list[list[int]]) -> None:
    made, wanted = _Lists(np.int64, sum(map(len, pieces))), []
    for number, lengths in enumerate(pieces):
        values = np.arange(sum(lengths), dtype=np.int64) * 7 + number
        wanted += np.split(values, np.cumsum(lengths)[:-1]) if lengths else []
        made.add(values, np.cumsum([0, *lengths]))
    values, offsets = made.done()
    assert len(offsets) == 1 + len(wanted)
    for (start, end), own in zip(pairwise(offsets.tolist()), wanted, strict=True):
        assert np.array_equal(values[start:end], own)


def test_the_buffer_moves_while_it_is_small_alone() -> None:
    rows, pieces, length = 100, 200, 300
    made, moved = _Lists(np.uint32, rows * pieces), []
    for piece in range(pieces):
        before = made._values
        made.add(np.full(rows * length, piece, dtype=np.uint32), np.arange(rows + 1) * length)
        if made._values is not before:
            moved.append(piece)
    assert moved[0] == 2, "it holds 65,536 at first"
    assert max(moved) < pieces / 20, f"moved at pieces {moved} of {pieces}"
    values, offsets = made.done()
    assert len(values) == rows * pieces * length == offsets[-1]
    assert values[:: rows * length].tolist() == list(range(pieces))
