"""What a saved classifier must be before it labels anything: numbers of the right shape, and what describes them.

A file that was torn, edited or made by something else would otherwise label every prompt, wrongly and in silence.
"""

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

_UNREADABLE = (
    *(ArithmeticError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError, TypeError, ValueError),
    *(struct.error, zipfile.BadZipFile, zlib.error),
)
"""What reading a torn or edited archive raises, by what was torn."""


def info_of(path: Path, features: int, labels: tuple[str, ...]) -> dict[str, Any]:
    """`depth.json`; `ValueError` for what describes no classifier of these features and labels, in their order."""
    try:
        info = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name}: {error}") from None
    if (made := info.get("features")) != features:
        raise ValueError(
            f"{path.parent}: the classifier was trained for features {made}, this version has {features}: "
            "train it again"
        )
    if info.get("labels") != list(labels):
        raise ValueError(f"{path.name}: its labels are not {', '.join(labels)}")
    return info


def arrays_of(path: Path, width: int, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`columns`, `weights` and `bias` of `depth.npz`; `ValueError` for what are no weights of `width` columns."""
    data = io.BytesIO(path.read_bytes())
    try:
        with np.load(data, allow_pickle=False) as arrays:
            columns, weights, bias = (arrays[name] for name in ("columns", "weights", "bias"))
    except _UNREADABLE as error:
        raise ValueError(f"{path.name}: {error or 'is empty'}") from None
    numbers = columns.dtype.kind in "iu" and weights.dtype.kind == bias.dtype.kind == "f"
    if not numbers or weights.shape != (len(columns), classes) or bias.shape != (classes,):
        raise ValueError(f"{path.name}: no weights for each column and class")
    if len(columns) and (columns.min() < 0 or columns.max() >= width):
        raise ValueError(f"{path.name}: weights of columns that there are not")
    if not (np.isfinite(weights).all() and np.isfinite(bias).all()):
        raise ValueError(f"{path.name}: weights that are no finite numbers")
    return columns, weights, bias
