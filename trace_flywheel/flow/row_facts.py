"""What the card of a dataset says about its rows as they were published: pairs and their deltas, labels and weights."""

from array import array
from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

from trace_flywheel.records.rows import Provenance

HIGHEST_BALANCE = 4 / 3
"""TRL's KTO advice: desirable weight x rows over undesirable weight x rows lies between 1 and 4/3."""


class RowFacts(msgspec.Struct):
    """Counts over rows that came through; `add` each."""

    NAMES: ClassVar[frozenset[str]] = frozenset(("labels_published", "kto_weights", "pairs"))
    """Of the facts that it gives."""

    good: int = 0
    bad: int = 0
    deltas: "array[float]" = msgspec.field(default_factory=lambda: array("d"))
    by_source: dict[str, int] = {}
    lowest_rejected: int = 0
    sizes: "array[int]" = msgspec.field(default_factory=lambda: array("q"))
    spreads: "array[float]" = msgspec.field(default_factory=lambda: array("d"))

    def add(self, row: Provenance, label: bool | None) -> None:
        """`label` is that of an unpaired answer."""
        self.good += label is True
        self.bad += label is False
        if row.delta is None:
            return
        self.deltas.append(row.delta)
        self.sizes.append(row.group_size or 0)
        self.spreads.append(row.spread or 0.0)
        self.lowest_rejected += bool(row.rejected_is_min)
        source = row.delta_source or "reward"
        self.by_source[source] = self.by_source.get(source, 0) + 1

    def as_facts(self) -> dict[str, Any]:
        """What the manifest holds; empty for rows of other kinds."""
        found: dict[str, Any] = {}
        if self.good or self.bad:
            found["labels_published"] = {"desirable": self.good, "undesirable": self.bad}
            found["kto_weights"] = kto_weights(self.good, self.bad)
        if self.deltas:
            found["pairs"] = {
                "delta_source": dict(sorted(self.by_source.items())),
                "delta": _range(self.deltas),
                "rejected_is_min": self.lowest_rejected,
                "group_size": _range(self.sizes),
                "spread": _range(self.spreads),
            }
        return found


def kto_weights(good: int, bad: int) -> dict[str, float] | None:
    """`desirable_weight` and `undesirable_weight` that bring the two labels into balance; None where one is missing."""
    if not good or not bad:
        return None
    ratio = good / bad
    return {
        "desirable_weight": round(max(1.0, 1 / ratio), 4),
        "undesirable_weight": round(max(1.0, ratio / HIGHEST_BALANCE), 4),
    }


def _range(values: Iterable[float]) -> list[float]:
    """Lowest, median (the lower of two) and highest."""
    ordered = sorted(values)
    return [round(v, 6) for v in (ordered[0], ordered[(len(ordered) - 1) // 2], ordered[-1])]
