"""The weights of the depth classifier: the mean of two linear models, so that labelling costs no more than with one.

One is a multinomial logistic regression. The other has a logistic regression per class in which an n-gram is worth as
much as it tells for or against the class (the log of its naive Bayes ratio): words that are rare and telling weigh
more, common ones less. Each is right where the other is not; by cross-validation both together beat either.
"""

from typing import TYPE_CHECKING

import numpy as np

from trace_flywheel.curation.depth_features import GRAMS

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

INVERSE_REGULARISATION = 1.0
"""Of both; best of 0.5, 1, 3 by cross-validation on the seed set."""
MIN_ROWS = 2
"""Training prompts that an n-gram stands in before it gets a weight: one prompt's own words teach nothing."""
SMOOTHING = 0.5
"""Prompts of either side that every n-gram is taken to stand in besides."""
TELLING = 2.5
"""Weight of n-grams beside the cues in the second model; best of 1, 1.5, 2.5 by cross-validation."""


def fit(matrix: "csr_matrix", labels: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns that count, their weights by class, and the bias of each class. The same rows give the same numbers."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped] # has no types

    columns = np.flatnonzero(np.bincount(matrix.indices, minlength=matrix.shape[1]) >= MIN_ROWS)
    rows = matrix[:, columns]
    with threadpool_limits(1):  # sums in one order, the same bytes on any number of cores
        one = LogisticRegression(C=INVERSE_REGULARISATION, max_iter=1000, class_weight="balanced").fit(rows, labels)
        weights, bias = one.coef_.T / 2, one.intercept_ / 2
        for name in range(classes):
            worth = _worth(rows, columns, labels == name)
            own = LogisticRegression(C=INVERSE_REGULARISATION, max_iter=1000, class_weight="balanced")
            own.fit(rows.multiply(worth).tocsr(), labels == name)
            weights[:, name] += own.coef_[0] * worth / 2
            bias[name] += own.intercept_[0] / 2
    return columns, weights.astype(np.float32), bias.astype(np.float32)


def _worth(rows: "csr_matrix", columns: np.ndarray, belongs: np.ndarray) -> np.ndarray:
    """How much each column tells for or against a class; 1 for a cue."""
    present = (rows > 0).astype(np.float64)
    inside = SMOOTHING + np.asarray(present[belongs].sum(axis=0)).ravel()
    outside = SMOOTHING + np.asarray(present[~belongs].sum(axis=0)).ravel()
    telling = np.abs(np.log(inside / inside.sum()) - np.log(outside / outside.sum()))
    return np.where((columns >= GRAMS.start) & (columns < GRAMS.stop), TELLING * telling, 1.0)
