"""What is said of rollouts after their run: verdicts, judge scores and withdrawals, addressed by trace (and run).

Where a trace id stands in several runs an entry must name its run: by its run id, or by its folder's name.
"""

from typing import Literal
from urllib.parse import unquote

import msgspec

from trace_flywheel.records.rollout import Verdict


class VerdictEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A verdict from a file. It stands in place of the rollout's own grade, which is kept as evidence."""

    trace_id: str
    verdict: Verdict
    grader: str
    grader_version: str | None = None
    reward: float | None = None
    run_id: str | None = None
    path: str = ""
    line: int = 0


class JudgeEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A judge's score from a file, 0..1 after its own scale is taken out."""

    trace_id: str
    value: float
    name: str = "score"
    judge: str = ""
    run_id: str | None = None
    path: str = ""
    line: int = 0


class Withdrawal(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rollouts that no later dataset may use: all of a grader (and version), of a run, or of one trace (of a run)."""

    reason: str
    mode: Literal["recompute", "excise"] = "recompute"
    grader: str | None = None
    grader_version: str | None = None
    """None: every version of it."""
    run: str | None = None
    """A run id, or its last component."""
    trace: str | None = None

    @property
    def what(self) -> str:
        if self.grader is not None:
            return f"grader {self.grader}" + (f"@{self.grader_version}" if self.grader_version else "")
        named = {"trace": self.trace, "run": self.run}
        return " of ".join(f"{name} {value}" for name, value in named.items() if value is not None)

    def covers(self, run_id: str, trace_id: str, grader: str | None, version: str | None) -> bool:
        """Whether it is about this rollout, graded so."""
        if self.grader is not None:
            return grader == self.grader and self.grader_version in (None, version)
        if self.run is not None and self.run not in (run_id, unquote(run_id.rsplit("/", 1)[-1])):
            return False
        return self.trace in (None, trace_id)
