"""Which rollouts may be compared, and in which order equal ones stand.

Statistics, fractions and pairs are taken among one grader, version and scale (null is a value like any other), over
rollouts whose score counts: a failure of the infrastructure or the verifier says nothing about the model. Ties are
broken by a seeded hash of the content, never by a name.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

COMPARABLE = ("grader", "grader_version", "reward_low", "reward_high")
NOT_THE_MODELS = ("infrastructure", "verifier")
BLOCK = 1 << 13
"""Hashes that stand as Python's texts at a time."""


def finite_reward(frame: pd.DataFrame) -> np.ndarray:
    """Rewards as float64; whatever is no finite number is NaN."""
    rewards = frame["reward"].to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(rewards), rewards, np.nan)


def failed_around(frame: pd.DataFrame) -> np.ndarray:
    """Mask of the rollouts that infrastructure or verifier ended."""
    mask: np.ndarray = frame["error_by"].isin(NOT_THE_MODELS).to_numpy(dtype=bool)
    return mask


def scored(frame: pd.DataFrame) -> np.ndarray:
    """Mask of the rollouts whose reward counts in statistics."""
    mask: np.ndarray = ~np.isnan(finite_reward(frame)) & ~failed_around(frame)
    return mask


def codes(frame: pd.DataFrame, columns: Sequence[str]) -> np.ndarray:
    """A number per row, equal where all columns are equal; null equals null."""
    combined = np.zeros(len(frame), dtype=np.int64)
    for column in columns:
        own, values = pd.factorize(frame[column], use_na_sentinel=False)
        # Renumbered after each column, so that the product never overflows.
        combined = pd.factorize(combined * len(values) + own)[0] if len(frame) else combined
    return combined


def seeded_hash(frame: pd.DataFrame, seed: int) -> np.ndarray:
    """uint64 per row from `content_hash` (hex) and the seed: equal content stands together, any seed is a new order.

    The mixing is splitmix64's finaliser (Steele, Lea, Flood 2014): a bijection, so that it adds no collisions.
    """
    begins = frame["content_hash"].str[:16]
    digits = ("".join(begins.iloc[at : at + BLOCK].tolist()) for at in range(0, len(begins), BLOCK))
    words = np.frombuffer(b"".join(map(bytes.fromhex, digits)), dtype=">u8").astype(np.uint64)
    with np.errstate(over="ignore"):
        mixed = words + np.uint64((seed * 0x9E3779B97F4A7C15) % 2**64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: np.ndarray = mixed ^ (mixed >> np.uint64(31))
    return result


def descending(values: np.ndarray) -> np.ndarray:
    """Sort key that puts the highest value first and NaN last."""
    return np.where(np.isnan(values), np.inf, -values)


def judge_scores(frame: pd.DataFrame) -> np.ndarray:
    """Judge scores as float64, NaN where there is none."""
    return frame["judge_score"].to_numpy(dtype=np.float64, na_value=np.nan)
