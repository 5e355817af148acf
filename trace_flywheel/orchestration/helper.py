"""The process beside that of a Dagster run: what is large is done there, so that this one, which holds Dagster, never
grows with the rollouts. What is small is done here: the other process would take longer to start."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from trace_flywheel.flow.begun import taken, taken_process
from trace_flywheel.flow.beside import Beside, is_small
from trace_flywheel.flow.home import lake_of
from trace_flywheel.flow.ingest_tasks import INDEX
from trace_flywheel.orchestration.once import Once
from trace_flywheel.settings import Settings
from trace_flywheel.sources.reader import Run

Result = TypeVar("Result")

SMALL_ROLLOUTS = 100
"""Of a lake that is worked on here."""

_helper: tuple[str, Beside] | None = None
_large: Once[bool] = Once(lambda _, settings: _rollouts(settings) > SMALL_ROLLOUTS)


def over_all(run_id: str, settings: Settings, function: Callable[..., Result], *arguments: Any) -> Result:
    """`function(*arguments)`, which works on all runs, for the Dagster run of this id; its calls share a process."""
    global _helper
    if not _large.of(run_id, settings):
        return function(*arguments)
    if _helper is None or _helper[0] != run_id:
        end()
        _helper = run_id, taken_process() or Beside(settings.home)
    return _helper[1].call(function, *arguments)


def over_runs(settings: Settings, runs: Sequence[Run], function: Callable[..., Result], *arguments: Any) -> Result:
    """`function(*arguments)`, a step over these runs, while others may write. Of each step only its own parts (rules of
    redaction, compiled loops) stand in memory: its process ends with it. What was begun ahead is waited for."""
    if (begun := taken(function, arguments)) is not None:
        return begun.result()  # type: ignore[no-any-return] # what the function returned
    if is_small(runs):
        return function(*arguments)
    beside = Beside(settings.home)
    try:
        return beside.call(function, *arguments, shared=True)
    finally:
        beside.close()


def end() -> None:
    """No more calls for the run under way."""
    global _helper
    if _helper is not None:
        _helper[1].close()
        _helper = None


def _rollouts(settings: Settings) -> int:
    return sum(sidecar.counts.kept for sidecar in lake_of(settings).sidecars(INDEX))
