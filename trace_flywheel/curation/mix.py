"""The target mix: the largest set whose classes stand in the wanted shares.

Shares hold among the targeted classes (divided by their sum). The size is the largest total whose largest-remainder
quotas fit the supply of every targeted class; a targeted class without a row leaves nothing (`shrink`), ends it
(`fail`), or gives its share to the others (`renormalize`). With `upsample` k a row may stand up to k times, and the set
grows to as many rows as the targeted classes have. Classes without a target keep their natural share, a target of 0
keeps none. Which rows of a class stay is decided by the seeded hash of their id, never by position, and the classes are
spread evenly through the output.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pandas as pd


class MixShortageError(ValueError):
    """A class has too few rows for its share and `shortage` is `fail`. The text names it."""


@dataclass(frozen=True)
class MixReport:
    """What the mix did, by class. Shares are of the targeted classes and add up to 1."""

    supply: dict[str, int]
    share: dict[str, float]
    kept: dict[str, int]
    """Rows per class: the quota of a targeted class, the natural share of the others; repeats count."""
    discarded: dict[str, int]
    limiting: str | None
    """The class whose supply ended the growth of the set; None where every row of the wanted classes stays."""

    @property
    def total(self) -> int:
        return sum(self.kept.values())

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "total": self.total}


@dataclass(frozen=True)
class Mix:
    """`order`: positions of the kept rows in output order, repeated ones each time. `kept`: as a mask of the input."""

    order: np.ndarray
    kept: np.ndarray
    report: MixReport


def target_mix(
    classes: Sequence[str],
    ids: Sequence[str],
    target: Mapping[str, float],
    shortage: Literal["shrink", "fail", "renormalize"],
    seed: int,
    upsample: int = 1,
) -> Mix:
    """Choose rows so that `classes` (one a row) stand in the shares of `target`.

    `ids` are content hashes, unique. Raises `MixShortageError` under `fail` when keeping every targeted row would break
    the shares, `ValueError` for a target without a positive share or for an id that stands twice.
    """
    if len(set(ids)) != len(ids):
        raise ValueError("two rows have the same id: remove exact duplicates before the mix")
    counts = pd.Series(list(classes), dtype=object).value_counts()
    supply = {name: int(counts.get(name, 0)) for name in sorted({*counts.index, *target})}
    if shortage == "renormalize":
        target = {name: share for name, share in target.items() if supply[name] or not share}
    shares = exact_shares(target)
    wanted = {name: supply[name] for name in shares}
    size = largest_size({name: n * upsample for name, n in wanted.items()}, shares)
    if upsample > 1:
        size = min(size, sum(n for name, n in wanted.items() if shares[name] > 0))
    limiting = None
    if size == 0 or size < sum(n for name, n in wanted.items() if shares[name] > 0):
        limiting = min(
            (name for name in shares if shares[name] > 0), key=lambda name: (wanted[name] / shares[name], name)
        )
    if limiting is not None and shortage == "fail":
        raise MixShortageError(
            f"class {limiting!r} has {supply[limiting]} rows, too few for its share of {float(shares[limiting]):.3g}: "
            f"add rows of it, or set mix.shortage = shrink for a set of {size}"
        )
    quota = quotas(size, shares)
    targeted = sum(wanted.values())
    for name in supply.keys() - shares.keys():
        quota[name] = (2 * size * supply[name] + targeted) // (2 * targeted) if targeted else 0
    order = _interleaved(_chosen(classes, ids, quota, seed), seed, ids)
    kept = np.zeros(len(ids), dtype=bool)
    kept[order] = True
    report = MixReport(
        supply=supply,
        share={name: float(share) for name, share in shares.items()},
        kept={name: quota[name] for name in supply},
        discarded={name: max(0, supply[name] - quota[name]) for name in supply},
        limiting=limiting,
    )
    return Mix(order, kept, report)


def exact_shares(target: Mapping[str, float]) -> dict[str, Fraction]:
    """Shares that add up to exactly 1, read as the decimals they were written as, by class name."""
    written = {name: Fraction(str(target[name])) for name in sorted(target)}
    total = sum(written.values())
    if total <= 0 or min(written.values()) < 0:
        raise ValueError("shares must be zero or more and at least one above zero")
    return {name: share / total for name, share in written.items()}


def quotas(total: int, shares: Mapping[str, Fraction]) -> dict[str, int]:
    """Largest-remainder apportionment of `total`; equal remainders go to the larger share, then by name."""
    exact = {name: total * share for name, share in shares.items()}
    quota = {name: int(value) for name, value in exact.items()}
    left = total - sum(quota.values())
    for name in sorted(exact, key=lambda n: (quota[n] - exact[n], -shares[n], n))[:left]:
        quota[name] += 1
    return quota


def largest_size(supply: Mapping[str, int], shares: Mapping[str, Fraction]) -> int:
    """The largest total whose quotas fit; 0 where a class with a share has no row.

    Every total up to min(supply / share) fits and none from min((supply + 1) / share) on, so the search is short.
    """
    wanted = [name for name, share in shares.items() if share > 0]
    if any(supply[name] == 0 for name in wanted):
        return 0
    size = int(min((supply[name] + 1) / shares[name] for name in wanted))
    while any(quota > supply[name] for name, quota in quotas(size, shares).items()):
        size -= 1
    return size


def _chosen(classes: Sequence[str], ids: Sequence[str], quota: Mapping[str, int], seed: int) -> dict[str, list[int]]:
    """Positions kept of each class, in the order of their seeded hashes."""
    members: dict[str, list[int]] = {name: [] for name in quota}
    for position, name in enumerate(classes):
        members[name].append(position)
    chosen = {}
    for name in sorted(members):
        drawn = sorted(members[name], key=lambda p: _draw(seed, ids[p]))
        chosen[name] = [drawn[j % len(drawn)] for j in range(quota[name])]
    return chosen


def _interleaved(chosen: Mapping[str, list[int]], seed: int, ids: Sequence[str]) -> np.ndarray:
    """The j-th of a class's n rows stands at (j + 1/2) / n of the output, so each stretch holds the mix."""
    placed = [
        ((j + 0.5) / len(rows), _draw(seed, ids[row]), row) for rows in chosen.values() for j, row in enumerate(rows)
    ]
    return np.array([row for _, _, row in sorted(placed)], dtype=np.int64)


def _draw(seed: int, row_id: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{row_id}".encode(), digest_size=16).digest()
