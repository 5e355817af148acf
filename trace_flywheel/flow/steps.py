"""One step over many runs: what is fresh stays, tasks of all runs share one pool, each run is finished by itself.

A step gives a function for its tasks, a plan for a run (which tasks, from what) and a finish (what they become). Runs
whose plan or tasks fail are quarantined with the reason; the others go on. Results come in the order of the runs.

What is finished lands in batches, because a run that lands alone waits for the disk six times, and so do 64 together.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import msgspec

from trace_flywheel.flow.ingest_tasks import Chunk, Described, Outcome, Parts, seconds_of
from trace_flywheel.flow.lasting import run_step
from trace_flywheel.flow.workers import Crash
from trace_flywheel.lake.landing import Staged
from trace_flywheel.lake.objects import RemoteError
from trace_flywheel.lake.quarantine import quarantine
from trace_flywheel.lake.sidecar import Sidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.sources import run_state
from trace_flywheel.sources.reader import Run

Task = TypeVar("Task", bound=Chunk | Parts | Described)
Shared = TypeVar("Shared")

Known = Mapping[str, str]
"""Fingerprints of folders, by run id, taken before any of them was read; others are taken when their turn comes."""
NOTHING_KNOWN: Known = {}
BATCH_RUNS, BATCH_SECONDS = 64, 3.0
"""Runs that land together, and how long the first of them waits for others: the work that a kill may undo."""


class StepResult(msgspec.Struct, frozen=True):
    """What a step did with one run. `sidecar` has counts, digests and facts; None where nothing was ever made.
    `before`: what stood when the step came to the run."""

    asset: str
    run_id: str
    status: Literal["made", "unchanged", "quarantined"]
    sidecar: Sidecar | None
    reason: str = ""
    before: Sidecar | None = None


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
    def is_done(self) -> bool:
        return len(self.results) == len(self.tasks)

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
    finish: Callable[[Job[Task]], Staged | StepResult]
    mask: Callable[[str], str]
    """Takes secrets out of a reason, which may quote a file."""
    landed: Callable[[Job[Task], Sidecar], StepResult] | None = None
    """What to make of a run whose partition is in force; `made` where a step has no other."""

    def over(self, runs: Sequence[Run], workers: int, known: Known) -> Iterator[StepResult]:
        """The result of every run, in order."""
        before: dict[str, Sidecar | None] = {}
        for result in self._over(runs, workers, before, known):
            yield msgspec.structs.replace(result, before=before.pop(result.run_id))

    def _over(
        self, runs: Sequence[Run], workers: int, before: dict[str, Sidecar | None], known: Known
    ) -> Iterator[StepResult]:
        """`before` is told what stands of a run when its turn comes."""
        queue: deque[Job[Task] | StepResult] = deque()
        batch = _Batch(self)
        try:
            tasks = self._tasks(runs, queue, before, known)
            for result in run_step(self.function, self.shared, tasks, workers, seconds_of):
                self._finish(queue, batch)
                if batch.is_due:
                    yield from batch.land()
                job = queue[0]
                assert isinstance(job, Job)
                job.results.append(result)
            self._finish(queue, batch)
            yield from batch.land()
        finally:
            batch.close()
            for left in queue:
                if isinstance(left, Job):
                    left.stack.close()

    def _tasks(
        self,
        runs: Sequence[Run],
        queue: deque[Job[Task] | StepResult],
        before: dict[str, Sidecar | None],
        known: Known,
    ) -> Iterator[Task]:
        for run in runs:
            sidecar = before[run.run_id] = self.lake.sidecar(self.asset, run.run_id)
            # Taken before reading: a change during the read shows up as a difference.
            fingerprint = known.get(run.run_id) or run_state.fingerprint(run)
            if self.fresh(run.run_id, fingerprint):
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

    def _finish(self, queue: deque[Job[Task] | StepResult], batch: "_Batch[Task]") -> None:
        """Move what waits for no more tasks from the head of the queue to the batch."""
        while queue and (isinstance(queue[0], StepResult) or queue[0].is_done):
            batch.add(queue[0])
            queue.popleft()

    def made(self, job: Job[Task], sidecar: Sidecar) -> StepResult:
        return StepResult(self.asset, job.run.run_id, "made", sidecar)

    def quarantined(self, run: Run, fingerprint: str, reason: str) -> StepResult:
        """Note the run's failure; what was made of it before stays."""
        reason = self.mask(reason)
        quarantine(self.lake, run.run_id, reason, fingerprint)
        return StepResult(self.asset, run.run_id, "quarantined", self.lake.sidecar(self.asset, run.run_id), reason)


@dataclass
class _Batch(Generic[Task]):
    """Results in their order, some of which have yet to land."""

    step: Step[Task, Any]
    waiting: list[tuple[Job[Task], Staged] | StepResult] = field(default_factory=list)
    since: float = 0.0

    def add(self, item: Job[Task] | StepResult) -> None:
        if not self.waiting:
            self.since = time.monotonic()
        if isinstance(item, StepResult):
            self.waiting.append(item)
            return
        made = self.step.finish(item)
        item.results.clear()
        if isinstance(made, Staged):
            self.waiting.append((item, made))
        else:
            item.stack.close()
            self.waiting.append(made)

    @property
    def is_due(self) -> bool:
        aged = time.monotonic() - self.since > BATCH_SECONDS
        return len(self.waiting) >= BATCH_RUNS or (bool(self.waiting) and aged)

    def land(self) -> Iterator[StepResult]:
        if staged := [item[1] for item in self.waiting if not isinstance(item, StepResult)]:
            self.step.lake.land(staged)
        for item in self.waiting:
            if isinstance(item, StepResult):
                yield item
            else:
                job, one = item
                yield (self.step.landed or self.step.made)(job, one.sidecar)
        self.close()

    def close(self) -> None:
        """Nothing waits any more; what has not landed vanishes."""
        for item in self.waiting:
            if not isinstance(item, StepResult):
                item[0].stack.close()
        self.waiting = []
