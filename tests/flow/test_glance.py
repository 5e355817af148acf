"""Counts of a page: every value that is there is counted once, the largest one too."""

from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.flow.glance import BINS, Bins


def test_values_fall_into_equal_intervals() -> None:
    assert Bins.of([0.0, None, 0.0, 0.5, 1.0]) == Bins(4, 0.0, 1.0, (2, 0, 0, 0, 0, 1, 0, 0, 0, 1))
    assert Bins.of([2.0, 2.0]) == Bins(2, 2.0, 2.0, (2, *[0] * 9))
    assert Bins.of([None]) == Bins()


@given(st.lists(st.none() | st.floats(-1e6, 1e6)))
def test_nothing_is_lost(values: list[float | None]) -> None:
    known = [value for value in values if value is not None]
    bins = Bins.of(values)
    assert (bins.n, sum(bins.counts), len(bins.counts)) == (len(known), len(known), BINS)
    assert not known or (bins.low, bins.high) == (min(known), max(known))
