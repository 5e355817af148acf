"""Sums of fates are those of counting them one by one, in whatever pieces they come."""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.lake.columns import table
from trace_flywheel.lake.ledger import FATES_SCHEMA, Sums

LOST = st.tuples(
    st.just(False), st.sampled_from(["read", "redact", "dedup"]), st.sampled_from(["a", "b", "ü"]) | st.text()
)
KEPT = st.just((True, None, None))
UNTOLD = st.tuples(st.just(False), st.sampled_from(["read", None]), st.just(None)) | st.just((False, None, "a"))
Fate = tuple[bool, str | None, str | None]


def pieces(fates: list[Fate], size: int) -> list[pa.Table]:
    rows = [{"kept": kept, "stage": stage, "reason": reason} for kept, stage, reason in fates]
    return [table(rows[at : at + size], FATES_SCHEMA) for at in range(0, len(rows), size)]


def summed(made: list[pa.Table]) -> Sums:
    sums = Sums()
    for piece in made:
        sums.add(piece)
    return sums


@given(st.lists(LOST | KEPT, max_size=30), st.integers(1, 30), st.booleans())
def test_sums_are_counts(fates: list[Fate], size: int, joined: bool) -> None:
    made = pieces(fates, size)
    ledger = summed([pa.concat_tables(made)] if joined and made else made).ledger()
    assert (ledger.entered, ledger.kept) == (len(fates), sum(kept for kept, *_ in fates))
    told = {(stage, reason): n for stage, reasons in ledger.dropped.items() for reason, n in reasons.items()}
    assert told == Counter((stage, reason) for kept, stage, reason in fates if not kept)


@given(st.lists(LOST | KEPT, max_size=10), UNTOLD, st.integers(1, 12), st.integers(0, 10))
def test_a_fate_that_is_neither_is_refused(fates: list[Fate], untold: Fate, size: int, at: int) -> None:
    fates.insert(at, untold)
    with pytest.raises(AssertionError, match=r"^1 fates are neither kept nor dropped for a reason$"):
        summed(pieces(fates, size))
