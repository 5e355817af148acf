"""What must never be trained on, and what a human corrected: the two side inputs of a run."""

import msgspec

from trace_flywheel.records.rollout import Correction


class Golden(msgspec.Struct, frozen=True, omit_defaults=True):
    """One item of an eval set. `statement` is its prompt (or the user turns of its messages)."""

    task_id: str
    suite: str | None = None
    """None matches every suite."""
    statement: str = ""
    answer: str = ""
    path: str = ""
    line: int = 0


class CorrectionEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A correction from a file, addressed by trace (and run where the trace id is not unique)."""

    trace_id: str
    correction: Correction
    run_id: str | None = None
    path: str = ""
    line: int = 0
