"""A cursor is what it was written from, whatever was printed."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.flow.stream.cursor import Cursor

TRIALS = st.dictionaries(st.text(min_size=1), st.binary(min_size=32, max_size=32).map(bytes.hex), max_size=20)


@given(TRIALS, st.text(min_size=1), st.text(min_size=1))
def test_it_reads_back(trials, job, other):
    cursor = Cursor(job)
    for relative, sha256 in trials.items():
        cursor.add(relative, sha256)
    again = Cursor.parse(str(cursor), job)
    assert str(again) == str(cursor)
    assert all(again.holds(relative, sha256) for relative, sha256 in trials.items())
    assert again.printed(other) == (other in trials)


def test_it_grows_by_twelve_characters_a_trial():
    cursor = Cursor("job")
    sizes = []
    for number in range(3):
        cursor.add(f"t__{number}", "ab" * 32)
        sizes.append(len(str(cursor)))
    assert [b - a for a, b in pairwise(sizes)] == [12, 12]
