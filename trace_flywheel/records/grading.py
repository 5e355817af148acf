"""Grades that come after the run: verdicts and judge scores from files, addressed by trace (and run).

Where a trace id stands in several runs an entry must name its run: by its run id, or by its folder's name.
"""

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
