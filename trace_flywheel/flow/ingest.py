"""The first movement: each run on its own, from its folder to redacted text and a compact index.

    graded_traces       the folder's rollouts as read            raw text, private
    redacted_rollouts   the same without secrets                 part k from part k
    rollout_index       one entry a rollout, no text             part k from part k

Each step takes runs and gives one result a run, in their order. A run whose inputs have not changed is left alone; one
that cannot be read is quarantined with its reason, and the others go on. Drops are carried from step to step, so that
the index of a run accounts for everything its folder held. Work is spread over (run, chunk); chunks are cut by the
files alone, so the bytes do not depend on the number of processes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

import msgspec

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow.children import worker_count
from trace_flywheel.flow.contents import write_contents
from trace_flywheel.flow.expected import Expected
from trace_flywheel.flow.ingest_ends import carried, made_before, masked_by, mirror, outcomes, renamed, unit_by_unit
from trace_flywheel.flow.ingest_tasks import (
    GRADED,
    INDEX,
    REDACTED,
    Chunk,
    Described,
    Describing,
    Outcome,
    Parts,
    Reread,
    chunks,
    describe_part,
    read_chunk,
    redact_parts,
)
from trace_flywheel.flow.inputs import SideInputs, read_options
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.redaction_report import write_findings
from trace_flywheel.flow.steps import NOTHING_KNOWN, Job, Known, Step, StepResult
from trace_flywheel.flow.workers import Crash, run_alone
from trace_flywheel.lake.landing import Staged
from trace_flywheel.lake.quarantine import release
from trace_flywheel.lake.sidecar import LakeError, Sidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.settings import Settings
from trace_flywheel.sources import discover, run_state
from trace_flywheel.sources.reader import Run


def ingest(
    runs: Sequence[Run],
    lake: Lake,
    settings: Settings,
    inputs: SideInputs,
    workers: int | None = None,
    apart: bool = False,
) -> tuple[StepResult, ...]:
    """All three steps over runs; one result a run: that of the last step it reached, `made` if any step made it.

    `apart`: each step in a process of its own, which takes what it loaded with it. `FlywheelError` where one dies.
    """
    results: dict[str, StepResult] = {}
    left = list(runs)
    shared = lake, settings, inputs, workers, NOTHING_KNOWN
    for step in (graded_traces, redacted_rollouts, rollout_index):
        made_now = run_alone(all_of, shared, (step, left)) if apart else step(left, *shared)
        if isinstance(made_now, Crash):
            raise FlywheelError(made_now.reason)
        for result in made_now:
            before = results.get(result.run_id)
            made = before is not None and before.status == "made" and result.status == "unchanged"
            results[result.run_id] = msgspec.structs.replace(result, status="made") if made else result
        left = [run for run in left if results[run.run_id].status != "quarantined"]
    return tuple(results[run.run_id] for run in runs)


def all_of(
    shared: tuple[Lake, Settings, SideInputs, int | None, Known],
    task: tuple[Callable[..., Iterator[StepResult]], list[Run]],
) -> list[StepResult]:
    """The results of one step over runs, as a task of a process of its own."""
    step, runs = task
    return list(step(runs, *shared))


def graded_traces(
    runs: Sequence[Run],
    lake: Lake,
    settings: Settings,
    inputs: SideInputs,
    workers: int | None = None,
    known: Known = NOTHING_KNOWN,
) -> Iterator[StepResult]:
    """Read the folders of runs into the lake."""
    options, keep = read_options(settings), settings.lake.keep_raw
    expected = Expected(lake, settings, inputs)

    def plan(run: Run, fingerprint: str, stack: ExitStack) -> Job[Chunk]:
        folder = stack.enter_context(lake.generation(GRADED, run.run_id))
        tasks = [
            Chunk(run, i, units, folder, f"chunk-{i:05d}", keep, expected.erased(run.run_id))
            for i, units in enumerate(chunks(discover.units(run)))
        ]
        return Job(run, folder, tasks, fingerprint)

    def finish(job: Job[Chunk]) -> Staged:
        all_made: list[Outcome] = []
        for task, result in zip(job.tasks, job.results, strict=True):
            all_made += unit_by_unit(options, task) if isinstance(result, Crash) else [result]
        facts = {"format": job.run.format, "path": job.run.path.name, "keep_raw": keep}
        parts = [renamed(job, k, part) for k, part in enumerate(p for o in all_made for p in o.parts)]
        drops = [d for o in all_made for d in o.drops]
        if not keep:
            write_contents(job.folder, [pair for o in all_made for pair in o.contents])
        wanted = expected.digest(GRADED, job.run.run_id, job.fingerprint)
        entered = sum(p.rows for p in parts) + len(drops)
        return lake.stage(
            job.folder,
            GRADED,
            job.run.run_id,
            parts=parts,
            drops=drops,
            entered=entered,
            inputs_digest=wanted,
            source_fingerprint=job.fingerprint,
            facts=facts,
        )

    step = Step(
        GRADED,
        lake,
        partial(expected.is_fresh, GRADED),
        plan,
        read_chunk,
        options,
        finish,
        masked_by(settings, expected),
    )
    yield from step.over(runs, _workers(settings, workers), known)


def redacted_rollouts(
    runs: Sequence[Run],
    lake: Lake,
    settings: Settings,
    inputs: SideInputs,
    workers: int | None = None,
    known: Known = NOTHING_KNOWN,
) -> Iterator[StepResult]:
    """Take secrets and personal data out of what was read, and out of the corrections from files, joined first."""
    expected = Expected(lake, settings, inputs)

    def plan(run: Run, fingerprint: str, stack: ExitStack) -> Job[Parts]:
        before = made_before(lake, REDACTED, run)
        folder = stack.enter_context(lake.generation(REDACTED, run.run_id))
        corrections, erased = inputs.corrections_of(run.run_id), expected.erased(run.run_id)
        if before.facts["keep_raw"]:
            tasks = [Parts(lake.part_path(before, part), (part,), folder, corrections, erased) for part in before.parts]
        elif run_state.fingerprint(run) == before.source_fingerprint:  # as of now: it is read again
            options = read_options(settings)
            tasks = [
                Parts(
                    Reread(run, units, options),
                    tuple(p for p in before.parts if p.chunk == i),
                    folder,
                    corrections,
                    erased,
                )
                for i, units in enumerate(chunks(discover.units(run)))
            ]
        else:
            raise LakeError("source_changed: the folder changed since it was read, and the lake keeps no raw text")
        return Job(run, folder, tasks, before.source_fingerprint, before)

    def finish(job: Job[Parts]) -> Staged | StepResult:
        if job.crash:
            return step.quarantined(job.run, job.fingerprint, f"{REDACTED}: {job.crash.reason}")
        findings: dict[str, int] = {}
        for outcome in outcomes(job):
            for rule, n in outcome.findings.items():
                findings[rule] = findings.get(rule, 0) + n
        write_findings(job.folder, outcomes(job))
        # What readers say of a row quotes it: from here on it may be shown. Mostly there is none, and no need of rules.
        drops = carried(job, lake)
        safe = tuple(map(redactor(policy_of(settings)).safe, drops)) if drops else ()
        return mirror(REDACTED, job, lake, expected, safe, {"findings": dict(sorted(findings.items()))})

    fresh = partial(expected.is_fresh, REDACTED)
    step = Step(
        REDACTED, lake, fresh, plan, redact_parts, policy_of(settings, told=True), finish, masked_by(settings, expected)
    )
    yield from step.over(runs, _workers(settings, workers), known)


def rollout_index(
    runs: Sequence[Run],
    lake: Lake,
    settings: Settings,
    inputs: SideInputs,
    workers: int | None = None,
    known: Known = NOTHING_KNOWN,
) -> Iterator[StepResult]:
    """Describe every redacted rollout by an index entry. A run that gave no rollout at all is quarantined here."""
    expected = Expected(lake, settings, inputs)
    shared = Describing(Holdout(inputs.goldens, settings.goldens.overlap), settings.redaction.supervise_placeholders)

    def plan(run: Run, fingerprint: str, stack: ExitStack) -> Job[Described]:
        before = made_before(lake, INDEX, run)
        folder = stack.enter_context(lake.generation(INDEX, run.run_id))
        tasks = [Described(lake.part_path(before, part), k, folder) for k, part in enumerate(before.parts)]
        return Job(run, folder, tasks, before.source_fingerprint, before)

    def finish(job: Job[Described]) -> Staged | StepResult:
        if job.crash:
            return step.quarantined(job.run, job.fingerprint, f"{INDEX}: {job.crash.reason}")
        return mirror(INDEX, job, lake, expected, carried(job, lake), {})

    def landed(job: Job[Described], sidecar: Sidecar) -> StepResult:
        dropped = sidecar.counts.dropped
        if sidecar.counts.kept or (dropped and not any(r != "purged" for rs in dropped.values() for r in rs)):
            release(lake, job.run.run_id)
            return step.made(job, sidecar)
        first = next(iter(lake.drops(sidecar)), None)
        said = f"{first.stage}/{first.reason} in {first.path or 'the folder'}" if first else "it holds no rollout"
        reason = f"nothing could be read: {said}"
        return step.quarantined(job.run, job.fingerprint, reason)

    step = Step(
        INDEX,
        lake,
        partial(expected.is_fresh, INDEX),
        plan,
        describe_part,
        shared,
        finish,
        masked_by(settings, expected),
        landed,
    )
    yield from step.over(runs, _workers(settings, workers), known)


def _workers(settings: Settings, workers: int | None) -> int:
    return worker_count(settings.ingest.workers if workers is None else workers)
