"""What a worker process does to one chunk or part of a run. Every function takes what all tasks share and its task.

A task writes its own files into the generation that its run is making and may run twice (when another task killed the
pool), so it removes what it left before.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow as pa

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow.erased import Erased, normal, purged, said
from trace_flywheel.flow.garbage import few_collections
from trace_flywheel.flow.index import entries
from trace_flywheel.lake.codec import Spelt
from trace_flywheel.lake.index import INDEX_SCHEMA, index_table
from trace_flywheel.lake.parts import RolloutParts, TableFile, read_rollouts
from trace_flywheel.lake.purged import address_of
from trace_flywheel.lake.sidecar import Part, file_mode
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.golden import CorrectionEntry
from trace_flywheel.records.index import IndexEntry
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.redaction.policy import Policy, Sighting
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.sources import discover
from trace_flywheel.sources.reader import ReadOptions, Run, Unit

GRADED, REDACTED, INDEX = "graded_traces", "redacted_rollouts", "rollout_index"
CHUNK_BYTES, CHUNK_UNITS = 32_000_000, 512
"""A chunk of source units, cut in the order of their paths: enough work to send to a process."""
TABLE_ROWS, GROUP_TABLES = 250, 4
"""Entries that wait as objects, whose shingles take ten times the bytes of a column; tables of a row group."""


class Outcome(msgspec.Struct, frozen=True):
    """What a task made: the parts it wrote, the rollouts it lost, the findings it replaced by rule."""

    parts: tuple[Part, ...]
    drops: tuple[Drop, ...] = ()
    findings: dict[str, int] = {}
    sightings: Counter[Sighting] = msgspec.field(default_factory=Counter)
    """What was replaced, by kind of place."""
    contents: tuple[tuple[str, str], ...] = ()
    """(trace id, digest of what it said) where the text itself is not kept."""


def chunks(units: Sequence[Unit]) -> Iterator[tuple[Unit, ...]]:
    """Units in the order of their paths, cut by bytes and number."""
    chunk: list[Unit] = []
    size = 0
    for unit in units:
        if chunk and (size + unit.size > CHUNK_BYTES or len(chunk) >= CHUNK_UNITS):
            yield tuple(chunk)
            chunk, size = [], 0
        chunk.append(unit)
        size += unit.size
    if chunk:
        yield tuple(chunk)


class Chunk(msgspec.Struct, frozen=True):
    """Units of one run to read; `stem` begins the names of the parts they become."""

    run: Run
    number: int
    units: tuple[Unit, ...]
    folder: Path
    stem: str
    keep_text: bool
    erased: Erased = Erased()


def read_chunk(options: ReadOptions, task: Chunk) -> Outcome:
    for left in task.folder.glob(f"{task.stem}-*.parquet"):
        left.unlink()
    parts = RolloutParts(task.folder, task.stem, file_mode(GRADED), task.number, keep_text=task.keep_text)
    drops: list[Drop] = []
    contents: list[tuple[str, str]] = []
    with few_collections():
        for item in _read(options, task.run, task.units, task.erased):
            if isinstance(item, Drop):
                drops.append(item)
                continue
            parts.add(item)
            if not task.keep_text:
                contents.append((item.trace_id, said(item)))
    return Outcome(parts.close(), tuple(drops), contents=tuple(contents))


def _read(options: ReadOptions, run: Run, units: Sequence[Unit], erased: Erased) -> Iterator[Rollout | Drop]:
    for unit in units:
        for item in discover.read_unit(run, unit, options):
            yield (erased.drop(run.run_id, item) or item) if erased else item


class Reread(msgspec.Struct, frozen=True):
    """Where the text of parts is read again because the lake does not keep it: the chunk they came from."""

    run: Run
    units: tuple[Unit, ...]
    options: ReadOptions


class Parts(msgspec.Struct, frozen=True):
    """Parts to redact: names and row counts, of one file, or of all that one chunk gave."""

    source: Path | Reread
    parts: tuple[Part, ...]
    folder: Path
    corrections: dict[str, CorrectionEntry]
    erased: Erased


@few_collections()
def redact_parts(policy: Policy, task: Parts) -> Outcome:
    redact = redactor(policy).redact_told
    spelt: Spelt = {}
    rollouts = _rollouts(task.source, task.erased, spelt)
    made: list[Part] = []
    drops: list[Drop] = []
    findings: dict[str, int] = {}
    sightings: Counter[Sighting] = Counter()
    for part in task.parts:
        (task.folder / part.name).unlink(missing_ok=True)
        mirror = RolloutParts(task.folder, part.name, file_mode(REDACTED), cut=False)
        for _ in range(part.rows):
            rollout = next(rollouts)
            if (given := task.corrections.get(rollout.trace_id)) is not None:
                if task.erased.values.holds(normal(given.correction.content)):
                    address = address_of(rollout.run_id, rollout.trace_id)
                    drops.append(purged(rollout.run_id, address, "value", ""))
                    continue
                rollout = msgspec.structs.replace(rollout, correction=given.correction)
            result, seen = redact(rollout)
            if isinstance(result, Drop):
                drops.append(result)
                continue
            for rule, n in (result.redactions or {}).items():
                findings[rule] = findings.get(rule, 0) + n
            sightings.update(sighting.of_kind() for sighting in seen)
            mirror.add(result, spelt)
        made += mirror.close()
    return Outcome(tuple(made), tuple(drops), findings, sightings)


def _rollouts(source: Path | Reread, erased: Erased, spelt: Spelt) -> Iterator[Rollout]:
    if isinstance(source, Path):
        yield from (rollout for _, rollout in read_rollouts(source, spelt=spelt))
        return
    for item in _read(source.options, source.run, source.units, erased):
        if not isinstance(item, Drop):
            yield item


class Describing(msgspec.Struct, frozen=True):
    """What all index tasks share."""

    holdout: Holdout
    supervise_placeholders: Literal["mask", "keep"]


class Described(msgspec.Struct, frozen=True):
    """A redacted part and its number."""

    source: Path
    number: int
    folder: Path


def seconds_of(task: Chunk | Parts | Described) -> float:
    """About how long a task lasts, at least: how much it reads is known."""
    if isinstance(task, Chunk):
        return sum(unit.size for unit in task.units) / 25_000_000
    if isinstance(task.source, Reread):
        return sum(unit.size for unit in task.source.units) / 15_000_000
    with suppress(OSError):
        return task.source.stat().st_size / (5_000_000 if isinstance(task, Parts) else 8_000_000)
    return 0.0


@few_collections()
def describe_part(shared: Describing, task: Described) -> Outcome:
    path = task.folder / f"part-{task.number:05d}.parquet"
    path.unlink(missing_ok=True)
    tables = _tables(
        entries(read_rollouts(task.source, exchanges=False), task.number, shared.holdout, shared.supervise_placeholders)
    )
    with TableFile(path, INDEX_SCHEMA, file_mode(INDEX)) as file:
        while group := list(islice(tables, GROUP_TABLES)):
            file.write(pa.concat_tables(group))
    return Outcome((file.part,))


def _tables(described: Iterator[IndexEntry]) -> Iterator[pa.Table]:
    while batch := list(islice(described, TABLE_ROWS)):
        yield index_table(batch)
