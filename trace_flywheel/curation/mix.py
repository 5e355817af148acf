"""The target mix: the largest set whose classes stand in the wanted shares.

Shares hold among the targeted classes (divided by their sum) and are shares of a unit: of rollouts, each counting 1, or
of their sizes (supervised tokens). The set is the largest one that the supply of every targeted class allows: for
rollouts the largest total whose largest-remainder quotas fit, for sizes the budgets supply / share allows, of which
each class takes what fits in the seeded order, so that it misses its budget by less than one rollout.

Shortage. `shrink`: the scarcest class fixes the size. `fail`: that is an error. `renormalize`: a class without a row
gives its share to the others, if they have any. `upsample`: a rollout may stand several times, and the set grows to as
much as the targeted classes have. A targeted class without a row leaves nothing but under `renormalize`.

Mode. `drop` leaves surplus out. `weight` keeps every rollout and gives it the weight quota / supply of its class: what
dropping (or repeating) would keep of it on average.

Classes without a target keep their natural share, a target of 0 keeps none. Which rollouts of a class stay is decided
by the seeded hash of their id, never by position, and the classes are spread evenly through the output.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pandas as pd

from trace_flywheel.curation.apportionment import budgets_of, exact_shares, limiting_class, total_of
from trace_flywheel.records.shortage import Shortage

Mode = Literal["drop", "weight"]


class MixShortageError(ValueError):
    """A class has too few rows for its share and `shortage` is `fail`. The text names it."""


@dataclass(frozen=True)
class MixReport:
    """What the mix did, by class. Shares are of the targeted classes and add up to 1."""

    supply: dict[str, int]
    """Rollouts to choose from."""
    share: dict[str, float]
    kept: dict[str, int]
    """Rollouts in the output, repeats counted."""
    discarded: dict[str, int]
    limiting: str | None
    """The class whose supply ended the growth of the set; None where every row of the wanted classes stays."""
    supply_size: dict[str, int] | None = None
    """In the unit, where that is not rollouts."""
    kept_size: dict[str, int] | None = None
    weight: dict[str, float] | None = None
    """Of each rollout of a class, in mode `weight`."""

    @property
    def total(self) -> int:
        return sum(self.kept.values())

    @property
    def lost(self) -> bool:
        """Whether there were rollouts and none is left."""
        return not self.total and any(self.supply.values())

    def as_dict(self) -> dict[str, Any]:
        plain = {name: value for name, value in asdict(self).items() if value is not None or name == "limiting"}
        return {**plain, "total": self.total}


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
    shortage: Shortage,
    seed: int,
    upsample: int = 1,
    sizes: Sequence[int] | None = None,
    mode: Mode = "drop",
) -> Mix:
    """Choose rollouts so that `classes` (one each) stand in the shares of `target`.

    `ids` are content hashes, unique. `upsample`: how often a rollout may stand. `sizes`: what each counts (tokens),
    1 for None. Raises `MixShortageError` under `fail` when keeping every targeted row would break the shares,
    `ValueError` for a target without a positive share or for an id that stands twice.
    """
    if len(set(ids)) != len(ids):
        raise ValueError("two rows have the same id: remove exact duplicates before the mix")
    counts = pd.Series(list(classes), dtype=object).value_counts()
    rows = {name: int(counts.get(name, 0)) for name in sorted({*counts.index, *target})}
    supply = rows if sizes is None else _sums(rows, classes, sizes)
    if shortage == "renormalize":
        present = {name: share for name, share in target.items() if supply[name] or not share}
        target = present if any(present.values()) else target
    shares = exact_shares(target)
    total = total_of(supply, shares, upsample, whole=sizes is None)
    limiting = limiting_class(supply, shares, total)
    if limiting is not None and shortage == "fail":
        unit, size = ("rows", f"{total}") if sizes is None else ("tokens", f"{int(total)} tokens")
        raise MixShortageError(
            f"class {limiting!r} has {supply[limiting]} {unit}, too few for its share of "
            f"{float(shares[limiting]):.3g}: add rows of it, or set mix.shortage = shrink for a set of {size}"
        )
    quota = budgets_of(total, supply, shares, whole=sizes is None)
    if mode == "weight":
        weight = {name: float(Fraction(quota[name], supply[name])) if supply[name] else 0.0 for name in supply}
        chosen = _chosen(classes, ids, {name: rows[name] if weight[name] else 0 for name in rows}, seed)
    else:
        weight = None
        chosen = (
            _chosen(classes, ids, quota, seed)
            if sizes is None
            else _fitting(classes, ids, sizes, quota, seed, upsample)
        )
    order = _interleaved(chosen, seed, ids)
    kept = np.zeros(len(ids), dtype=bool)
    kept[order] = True
    taken = {name: len(chosen.get(name, ())) for name in rows}
    distinct = {name: len(set(chosen.get(name, ()))) for name in rows}
    report = MixReport(
        supply=rows,
        share={name: float(share) for name, share in shares.items()},
        kept=taken,
        discarded={name: rows[name] - distinct[name] for name in rows},
        limiting=limiting,
        supply_size=None if sizes is None else supply,
        kept_size=None if sizes is None else {n: sum(sizes[i] for i in chosen.get(n, ())) for n in rows},
        weight=weight,
    )
    return Mix(order, kept, report)


def _sums(rows: Mapping[str, int], classes: Sequence[str], sizes: Sequence[int]) -> dict[str, int]:
    sums = dict.fromkeys(rows, 0)
    for name, size in zip(classes, sizes, strict=True):
        if size < 1:
            raise ValueError("a size is one or more")
        sums[name] += size
    return sums


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


def _fitting(
    classes: Sequence[str],
    ids: Sequence[str],
    sizes: Sequence[int],
    budgets: Mapping[str, int],
    seed: int,
    upsample: int,
) -> dict[str, list[int]]:
    """Of each class, in seeded order and up to `upsample` times each, the rollouts that fit into its budget."""
    every = {name: upsample * classes.count(name) for name in set(classes)}
    drawn = _chosen(classes, ids, every, seed)
    chosen: dict[str, list[int]] = {}
    for name, rows in drawn.items():
        left, taken = budgets.get(name, 0), []
        for row in rows:
            if sizes[row] <= left:
                taken.append(row)
                left -= sizes[row]
        chosen[name] = taken
    return chosen


def _interleaved(chosen: Mapping[str, list[int]], seed: int, ids: Sequence[str]) -> np.ndarray:
    """The j-th of a class's n rows stands at (j + 1/2) / n of the output, so each stretch holds the mix."""
    placed = [
        ((j + 0.5) / len(rows), _draw(seed, ids[row]), row) for rows in chosen.values() for j, row in enumerate(rows)
    ]
    return np.array([row for _, _, row in sorted(placed)], dtype=np.int64)


def _draw(seed: int, row_id: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{row_id}".encode(), digest_size=16).digest()
