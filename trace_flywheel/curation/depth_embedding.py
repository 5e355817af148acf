"""The optional back end: sentence vectors beside the n-grams and cues, which know what a prompt means in other words.

Vectors are of the first kilobyte without code and quotations, rounded (processors differ in their last bits) and
scaled, so that the one regularisation of the classifier suits them.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from trace_flywheel.curation.depth_asked import HEAD, plain
from trace_flywheel.curation.embedding import DIGITS, DIMENSIONS, Encoder, encoder

SCALE = 4.0
"""Length of a prompt's vector beside the n-gram blocks; better than 10 by cross-validation."""
KEPT = 20_000
"""Vectors that are kept: cross-validation asks for each of them five times."""


def model_encoder() -> Encoder:
    """The encoder of the extra `embedding`. Raises `EmbeddingError` without it."""
    return encoder("the depth classifier's back end (depth.backend, --backend)")


def vectors(prompts: Sequence[str]) -> np.ndarray:
    """(n, DIMENSIONS) float32."""
    rows = [_vector(plain(prompt)[:HEAD]) for prompt in prompts]
    return np.array(rows, dtype=np.float32).reshape(len(rows), DIMENSIONS)


@lru_cache(KEPT)
def _vector(text: str) -> np.ndarray:
    return np.round(model_encoder().encode(text), DIGITS) * np.float32(SCALE)
