"""What `traces-to-data` did, in counters: nothing that was read goes missing from it."""

from typing import Any

import msgspec

from trace_flywheel.flow.recordings.corrected import Unused


class Report(msgspec.Struct):
    """The six counters of the original, and what is behind them."""

    scanned: int = 0
    failed: list[dict[str, str]] = msgspec.field(default_factory=list)
    packed: list[str] = msgspec.field(default_factory=list)
    """`.atraj.gz` files, which are not read."""
    other_task: int = 0
    same_rollout: int = 0
    redactions: dict[str, int] = msgspec.field(default_factory=dict)
    corrections_unused: list[Unused] = msgspec.field(default_factory=list)
    not_harvested: dict[str, int] = msgspec.field(default_factory=dict)
    """Candidates that made no row, by rule."""
    harvested: int = 0
    dropped: dict[str, int] = msgspec.field(default_factory=dict)
    """Rows, by rule; of pairs, groups by reason."""
    rollouts_dropped: list[dict[str, Any]] = msgspec.field(default_factory=list)
    emitted: int = 0
    held_out: int | None = None
    """Of those emitted, rows in the held-out file; None where nobody asked for one."""
    judge: dict[str, Any] | None = None
    signals: dict[str, float] = msgspec.field(default_factory=dict)
    """Mean of each signal over the rollouts that have it."""
    labels: dict[str, int] = msgspec.field(default_factory=dict)
    """Of unpaired answers: how many are good, how many bad."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "trajectories_scanned": self.scanned,
            "trajectories_failed": len(self.failed),
            "harvested": self.harvested,
            "exact_duplicates_dropped": self.dropped.get("exact_duplicate", 0),
            "minhash_near_duplicates_dropped": self.dropped.get("near_duplicate", 0),
            "emitted": self.emitted,
            "held_out": self.held_out,
            "failed": self.failed,
            "packed": self.packed,
            "other_task": self.other_task,
            "same_rollout": self.same_rollout,
            "redactions": self.redactions,
            "corrections_unused": msgspec.to_builtins(self.corrections_unused),
            "not_harvested": self.not_harvested,
            "dropped": self.dropped,
            "rollouts_dropped": self.rollouts_dropped,
            "judge": self.judge,
            "signals": self.signals,
            "labels": self.labels,
        }
