"""How a step of ingestion ends for a run: its parts and drops, those of the step before, and pieces that crashed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from trace_flywheel.flow.expected import BEFORE, ERASED_FROM, Expected
from trace_flywheel.flow.ingest_tasks import Chunk, Outcome, read_chunk
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.steps import Job
from trace_flywheel.flow.workers import Crash, run_alone
from trace_flywheel.lake.landing import Staged
from trace_flywheel.lake.sidecar import LakeError, Part, Sidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.settings import Settings
from trace_flywheel.sources.reader import ReadOptions, Run


def made_before(lake: Lake, step: str, run: Run) -> Sidecar:
    """What the step before made of a run."""
    sidecar = lake.sidecar(BEFORE[step], run.run_id)
    if sidecar is None:
        raise LakeError(f"{BEFORE[step]} of {run.run_id} was never made; materialise it first")
    return sidecar


def carried(job: Job[Any], lake: Lake) -> tuple[Drop, ...]:
    """The drops of the step before."""
    assert job.before is not None
    return lake.drops(job.before)


def mirror(
    step: str, job: Job[Any], lake: Lake, expected: Expected, carried: Sequence[Drop], facts: dict[str, object]
) -> Staged:
    """What a step made that mirrors the one before: its parts, its own drops and those carried on."""
    assert job.before is not None
    made = list(outcomes(job))
    known = {name: fact for name, fact in job.before.facts.items() if name != ERASED_FROM}
    return lake.stage(
        job.folder,
        step,
        job.run.run_id,
        parts=[p for o in made for p in o.parts],
        drops=[*carried, *(d for o in made for d in o.drops)],
        entered=job.before.counts.entered,
        inputs_digest=expected.digest(step, job.run.run_id, job.fingerprint),
        source_fingerprint=job.fingerprint,
        facts={**known, **facts, "of": job.before.content_digest},
    )


def outcomes(job: Job[Any]) -> Iterator[Outcome]:
    """What the tasks made that gave something."""
    yield from (r for r in job.results if isinstance(r, Outcome))


def unit_by_unit(options: ReadOptions, task: Chunk) -> Iterable[Outcome]:
    """The units of a chunk that crashed, each in a process of its own; the one at fault is a drop."""
    for i, unit in enumerate(task.units):
        one = msgspec.structs.replace(task, units=(unit,), stem=f"{task.stem}-{i:05d}")
        result = run_alone(read_chunk, options, one)
        if isinstance(result, Crash):
            evidence = {"text": result.reason}
            drop = Drop(Stage.READ, "unreadable_file", evidence, run_id=task.run.run_id, path=unit.relative)
            result = Outcome((), (drop,))
        yield result


def renamed(job: Job[Chunk], number: int, part: Part) -> Part:
    """A part under its number in the run; chunks name theirs by themselves."""
    name = f"part-{number:05d}.parquet"
    (job.folder / part.name).rename(job.folder / name)
    return msgspec.structs.replace(part, name=name)


def masked_by(settings: Settings, expected: Expected) -> Callable[[str], str]:
    """Makes a reason fit to be shown."""
    # The rules, 30 MB of a process, are made where there is a reason to show.
    return lambda reason: redactor(policy_of(settings)).mask(expected.shown(reason))
