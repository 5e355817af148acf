"""One step over many runs: what is fresh stays, tasks of all runs share one pool, each run is finished by itself.

A step gives a function for its tasks, a plan for a run (which tasks, from what) and a finish (what they become). Runs
whose plan or tasks fail are quarantined with the reason; the others go on. Results come in the order of the runs.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Literal, TypeVar

import msgspec

from trace_flywheel.flow.ingest_tasks import Chunk, Described, Outcome, Parts, seconds_of
from trace_flywheel.flow.workers import Crash, run_tasks
from trace_flywheel.lake.objects import RemoteError
from trace_flywheel.lake.quarantine import quarantine
from trace_flywheel.lake.sidecar import Sidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.sources import run_state
from trace_flywheel.sources.reader import Run

Task = TypeVar("Task", bound=Chunk | Parts | Described)
Shared = TypeVar("Shared")


class StepResult(msgspec.Struct, frozen=True):
    """What a step did with one run. `sidecar` has counts, digests and facts; None where nothing was ever made."""

    asset: str
    run_id: str
    status: Literal["made", "unchanged", "quarantined"]
    sidecar: Sidecar | None
    reason: str = ""


@dataclass
class Job(Generic[Task]):
    """A run under way in a step: where its new generation is written and what the tasks gave so far."""

    run: Run
    folder: Path
    tasks: Sequence[Task]
    fingerprint: str
    before: Sidecar | None = None
    results: list[Outcome | Crash] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def crash(self) -> Crash | None:
        return next((r for r in self.results if isinstance(r, Crash)), None)


@dataclass(frozen=True)
class Step(Generic[Task, Shared]):
    """A step's own parts. `plan` opens the generation on the stack it is given."""

    asset: str
    lake: Lake
    fresh: Callable[[str, str], bool]
    """Of a run id and the fingerprint of its folder."""
    plan: Callable[[Run, str, ExitStack], Job[Task]]
    function: Callable[[Shared, Task], Outcome]
    shared: Shared
    finish: Callable[[Job[Task]], StepResult]
    mask: Callable[[str], str]
    """Takes secrets out of a reason, which may quote a file."""

    def over(self, runs: Sequence[Run], workers: int) -> Iterator[StepResult]:
        """The result of every run, in order."""
        queue: deque[Job[Task] | StepResult] = deque()
        try:
            for result in run_tasks(self.function, self.shared, self._tasks(runs, queue), workers, seconds=seconds_of):
                yield from self._done(queue)
                job = queue[0]
                assert isinstance(job, Job)
                job.results.append(result)
            yield from self._done(queue)
        finally:
            for left in queue:
                if isinstance(left, Job):
                    left.stack.close()

    def _tasks(self, runs: Sequence[Run], queue: deque[Job[Task] | StepResult]) -> Iterator[Task]:
        for run in runs:
            # Taken before reading: a change during the read shows up as a difference.
            fingerprint = run_state.fingerprint(run)
            if self.fresh(run.run_id, fingerprint):
                sidecar = self.lake.sidecar(self.asset, run.run_id)
                queue.append(StepResult(self.asset, run.run_id, "unchanged", sidecar))
                continue
            stack = ExitStack()
            try:
                job = self.plan(run, fingerprint, stack)
            except RemoteError:  # text could not be fetched: no fault of the run's
                stack.close()
                raise
            except (OSError, FlywheelError) as error:
                stack.close()
                queue.append(self.quarantined(run, fingerprint, str(error)))
                continue
            job.stack = stack
            queue.append(job)
            yield from job.tasks

    def _done(self, queue: deque[Job[Task] | StepResult]) -> Iterator[StepResult]:
        """The results at the head of the queue that wait for nothing."""
        while queue:
            job = queue[0]
            if isinstance(job, Job):
                if len(job.results) < len(job.tasks):
                    return
                with job.stack:
                    result = self.finish(job)
            else:
                result = job
            queue.popleft()
            yield result

    def quarantined(self, run: Run, fingerprint: str, reason: str) -> StepResult:
        """Note the run's failure; what was made of it before stays."""
        reason = self.mask(reason)
        quarantine(self.lake, run.run_id, reason, fingerprint)
        return StepResult(self.asset, run.run_id, "quarantined", self.lake.sidecar(self.asset, run.run_id), reason)
