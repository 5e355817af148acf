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
    aliases: tuple[tuple[str | None, str], ...] = ()
    """Other names of the item as (suite, task id): the same task under another number, or in another suite."""

    @property
    def names(self) -> tuple[tuple[str | None, str], ...]:
        """All (suite, task id) that are this item."""
        return ((self.suite, self.task_id), *self.aliases)

    def is_task(self, task_id: str, suite: str | None) -> bool:
        """Whether a task is this item; a side that names no suite matches every suite."""
        return any(task_id == name and (None in (of, suite) or of == suite) for of, name in self.names)


class CorrectionEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A correction from a file, addressed by trace (and run where the trace id is not unique)."""

    trace_id: str
    correction: Correction
    run_id: str | None = None
    path: str = ""
    line: int = 0
