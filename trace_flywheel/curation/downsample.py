"""PostTrainLLM's target mix, as a policy by name: down-sampling only, in 32-bit floats, its order of draws.

The scarcest wanted class fixes the size; each class is rounded by itself (halves away from zero), so the total may
differ from that size by a row or two and a small class may vanish. Output is grouped by class.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from trace_flywheel.curation.mulberry import Mulberry32

CLASSES = ("single", "multi", "comparison", "other")


class Downsampled(msgspec.Struct, frozen=True):
    """`order`: positions of the kept rows, by class. `feasible`: the size that the scarcest class allows."""

    order: list[int]
    supply: dict[str, int]
    share: dict[str, float]
    feasible: int
    kept: dict[str, int]


def downsample(classes: Sequence[str], target: Mapping[str, float], seed: int) -> Downsampled:
    """Choose rows by their class (one of `CLASSES`). `ValueError` for shares without a positive sum or below zero."""
    given = [np.float32(target.get(name, 0.0)) for name in CLASSES]
    total = np.float32(0)
    for share in given:
        total = np.float32(total + share)
    if not total > 0 or min(given) < 0:
        raise ValueError("shares must be zero or more and at least one above zero")
    shares = [np.float32(share / total) for share in given]
    buckets = [[i for i, name in enumerate(classes) if name == own] for own in CLASSES]
    size = min(
        math.floor(np.float32(len(rows)) / share) for rows, share in zip(buckets, shares, strict=True) if share > 0
    )
    generator = Mulberry32(seed)
    order: list[int] = []
    kept = {}
    for name, rows, share in zip(CLASSES, buckets, shares, strict=True):
        wanted = math.floor(float(np.float32(np.float32(size) * share)) + 0.5)
        generator.shuffle(rows)
        order += rows[:wanted]
        kept[name] = min(wanted, len(rows))
    return Downsampled(
        order,
        {name: len(rows) for name, rows in zip(CLASSES, buckets, strict=True)},
        {name: float(share) for name, share in zip(CLASSES, shares, strict=True)},
        size,
        kept,
    )
