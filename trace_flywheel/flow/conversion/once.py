"""A rollout counts once: copies of one trace give their rows once, traces that share an id and differ give none.

Decided run by run, because an id is unique within its run only. The rows of a run wait in a spool, on disk once they
are many: whether two traces differ is known when the last one was read.
"""

import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice

from trace_flywheel.flow.conversion.rollout import Outcome, Refusal
from trace_flywheel.records.fate import Stage

SPOOL_BYTES = 16_000_000
"""Rows of a run that wait in memory."""


def once(outcomes: Iterable[Outcome], tell: Callable[[Outcome], None]) -> Iterator[Outcome]:
    """The outcomes in their order; `tell` hears of each that shares its id with a different one."""
    for _, of_run in groupby(outcomes, key=lambda outcome: outcome.run_id):
        yield from _of_run(of_run, tell)


def _of_run(outcomes: Iterable[Outcome], tell: Callable[[Outcome], None]) -> Iterator[Outcome]:
    held: deque[tuple[Outcome, int]] = deque()
    contents: dict[str, set[bytes]] = {}
    with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
        for outcome in outcomes:
            spool.writelines(row + b"\n" for row in outcome.rows)
            held.append((outcome, len(outcome.rows)))
            outcome.rows = []
            if outcome.content is not None and outcome.trace_id is not None:
                contents.setdefault(outcome.trace_id, set()).add(outcome.content)
        spool.seek(0)
        first: dict[str, tuple[int, str | None]] = {}
        for number in range(len(held)):
            # Taken from the list: whoever still held an outcome would hold its rows, in the end those of all.
            outcome, count = held.popleft()
            rows = [line[:-1] for line in islice(spool, count)]
            trace_id = outcome.trace_id
            if outcome.content is None or trace_id is None:
                outcome.rows = rows
            elif len(contents[trace_id]) > 1:
                _leave_out(outcome, Stage.READ, "conflicting_trace_id", outcome.source_path)
                outcome.unreadable = True
                tell(outcome)
            elif (seen := first.setdefault(trace_id, (number, outcome.source_path)))[0] != number:
                _leave_out(outcome, Stage.SAME_ROLLOUT, "same_rollout", seen[1])
                outcome.copy = True
            else:
                outcome.rows = rows
            yield outcome


def _leave_out(outcome: Outcome, stage: Stage, reason: str, path: str | None) -> None:
    """`path`: the file of the trace that is kept, or of the one that is not."""
    outcome.rows_with_calls = 0
    outcome.refused = []
    outcome.refusal = Refusal(stage, reason, {"trace_id": outcome.trace_id, "path": path})
