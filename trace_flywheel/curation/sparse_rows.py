"""Sparse rows as three arrays: enough to label prompts with a linear model, without a library for it.

`scipy.sparse` takes a third of a second to import, numpy's translator of Fortran with it, in a process that multiplies
a hundred rows. A product is the one that library makes, bit for bit where its build fuses no multiplication with an
addition: single precision, the values of a row one after the other.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class SparseRows(NamedTuple):
    """Row i has `values[ends[i]:ends[i + 1]]`, float32, in these `columns`, each once; it is `width` columns wide."""

    ends: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    width: int

    @classmethod
    def of_dense(cls, matrix: np.ndarray) -> "SparseRows":
        """The same without its zeros."""
        rows, columns = np.nonzero(matrix)
        ends = np.searchsorted(rows, np.arange(len(matrix) + 1))
        return cls(ends, columns.astype(np.int32), matrix[rows, columns].astype(np.float32), matrix.shape[1])

    def beside(self, others: "SparseRows") -> "SparseRows":
        """Every row with one of others behind it."""
        ends = self.ends + others.ends
        columns, values = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.float32)
        mine = np.arange(len(self.columns)) + np.repeat(others.ends[:-1], np.diff(self.ends))
        its = np.arange(len(others.columns)) + np.repeat(self.ends[1:], np.diff(others.ends))
        columns[mine], columns[its] = self.columns, others.columns + np.int32(self.width)
        values[mine], values[its] = self.values, others.values
        return SparseRows(ends, columns, values, self.width + others.width)

    def times(self, weights: np.ndarray) -> np.ndarray:
        """The product with a float32 matrix of `width` rows."""
        rows = np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))
        product = np.zeros((weights.shape[1], len(self.ends) - 1), dtype=np.float32)
        for of_class, own in zip(product, weights.T, strict=True):
            np.add.at(of_class, rows, self.values * own[self.columns])  # one after the other, unlike a sum
        return product.T

    def csr(self) -> "csr_matrix":
        """For who fits a model."""
        from scipy.sparse import csr_matrix

        return csr_matrix((self.values, self.columns, self.ends), shape=(len(self.ends) - 1, self.width))
