"""Sparse rows without a library: what they hold, and a product to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from trace_flywheel.curation.sparse_rows import SparseRows

FLOATS = st.floats(-8, 8, width=32) | st.just(0.0)
MATRIX = arrays.arrays(np.float32, st.tuples(st.integers(0, 4), st.integers(1, 6)), elements=FLOATS)


def test_rows_of_two_matrices_stand_side_by_side() -> None:
    left = np.array([[1, 0, 2], [0, 0, 0]], dtype=np.float32)
    right = np.array([[0, 3], [4, 5]], dtype=np.float32)
    both = SparseRows.of_dense(left).beside(SparseRows.of_dense(right))
    assert (both.ends.tolist(), both.columns.tolist(), both.values.tolist(), both.width) == (
        [0, 3, 5],
        [0, 2, 4, 3, 4],
        [1, 2, 3, 4, 5],
        5,
    )
    assert both.csr().toarray().tolist() == [[1, 0, 2, 0, 3], [0, 0, 0, 4, 5]]


def test_values_are_added_one_after_the_other_in_single_precision() -> None:
    row = np.array([[2.0**24, 1.0, 1.0, -(2.0**24)]], dtype=np.float32)
    ones = np.ones((4, 1), dtype=np.float32)
    assert SparseRows.of_dense(row).times(ones).tolist() == [[0.0]]  # 2.0 in double precision, or by halves


@given(MATRIX, st.integers(1, 4))
def test_a_product_is_that_of_scipy(matrix: np.ndarray, classes: int) -> None:
    weights = np.random.default_rng(matrix.size).standard_normal((matrix.shape[1], classes)).astype(np.float32)
    rows = SparseRows.of_dense(matrix)
    expected = np.zeros((len(matrix), classes), dtype=np.float32)
    for i, row in enumerate(matrix):
        for j in np.flatnonzero(row):
            expected[i] += row[j] * weights[j]
    assert rows.times(weights).tobytes() == expected.tobytes()
    assert np.asarray(rows.csr() @ weights) == pytest.approx(expected, rel=1e-4, abs=1e-4)
