"""Recordings below a folder, read, corrected and redacted one by one: what `traces-to-data` works on.

Order is that of the full paths. A file that cannot be used is a Drop with its path and reason; nothing is skipped in
silence, packed files included.
"""

from pathlib import Path

import msgspec

from trace_flywheel.curation.message_hashes import content_hash
from trace_flywheel.flow.recordings.events import Events
from trace_flywheel.records.canonical import sha256_hex
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.golden import CorrectionEntry
from trace_flywheel.records.rollout import Correction, Rollout
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.sources.atraj import PACKED_SUFFIX, SUFFIX
from trace_flywheel.sources.corrections import CorrectionEvent, read_corrections_and_events
from trace_flywheel.sources.discover import place_of, read_unit, run_id_of
from trace_flywheel.sources.reader import ReadOptions, Run, Unit
from trace_flywheel.sources.registry import reader


class Recordings(msgspec.Struct, frozen=True):
    """The files below a folder, sorted by path."""

    run: Run
    units: tuple[Unit, ...]
    packed: tuple[Unit, ...]
    """`.atraj.gz` files, which are not read."""


class Counts(msgspec.Struct):
    """What became of the files before any row was made."""

    scanned: int = 0
    other_task: int = 0
    """Left out by the task filter."""
    same_rollout: int = 0
    without_input: int = 0
    """Correction events that do not say what was asked."""
    failed: list[Drop] = msgspec.field(default_factory=list)
    redactions: dict[str, int] = msgspec.field(default_factory=dict)


def recordings_below(folder: Path) -> Recordings:
    """Raises `FlywheelError` where the folder is none or holds no recording."""
    if not folder.is_dir():
        raise FlywheelError(f"{folder}: no such folder; give a folder that holds {SUFFIX} files")
    top = place_of(folder)
    run = Run(run_id_of(top.name), "atraj", top, top)
    units = reader("atraj").units(run)
    plain = tuple(unit for unit in units if unit.path.name.endswith(SUFFIX))
    if not plain:
        raise FlywheelError(f"{folder}: no {SUFFIX} file below it; give the folder that the recorder writes to")
    return Recordings(run, plain, tuple(unit for unit in units if unit.path.name.endswith(PACKED_SUFFIX)))


class Corrections(msgspec.Struct, frozen=True):
    """By trace id, the last line of a file first; and events, which name none."""

    by_trace: dict[str, CorrectionEntry] = {}
    events: Events = Events()


def corrections_of(path: Path | None) -> Corrections:
    """Raises `FlywheelError` for a line that is no correction."""
    if path is None:
        return Corrections()
    found: dict[str, CorrectionEntry] = {}
    events = []
    for entry in read_corrections_and_events(path):
        if isinstance(entry, Drop):
            line = f":{entry.evidence['line']}" if "line" in entry.evidence else ""
            raise FlywheelError(f"{path}{line}: {entry.reason}: {entry.evidence.get('text')}")
        if isinstance(entry, CorrectionEvent):
            events.append(entry)
        else:
            found[entry.trace_id] = entry
    return Corrections(found, Events(tuple(events), path.name, sha256_hex(path.read_bytes())))


def read_all(
    found: Recordings,
    options: ReadOptions,
    task: str | None,
    pii: Policy | str,
    corrections: Corrections,
    counts: Counts,
) -> list[Rollout]:
    """The redacted rollouts whose recorded label is `task` (all for None), by path, their corrections joined on.

    Of two files with one id and one content the first counts; two contents under one id are told from nobody knows
    what, so both fail as `conflicting_trace_id`.
    """
    by_id: dict[str, list[Rollout]] = {}
    for unit in found.units:
        counts.scanned += 1
        for read in read_unit(found.run, unit, options):
            if isinstance(read, Drop):
                counts.failed.append(read)
            elif task is not None and read.suite != task:
                counts.other_task += 1
            else:
                by_id.setdefault(read.trace_id, []).append(read)
    single = []
    for same in by_id.values():
        if len({content_hash(rollout) for rollout in same}) > 1:
            paths = [rollout.source.path for rollout in same]
            evidence = {"text": f"one id, different recordings: {', '.join(paths)}"}
            counts.failed += [Drop(Stage.READ, "conflicting_trace_id", evidence, path=path) for path in paths]
            continue
        counts.same_rollout += len(same) - 1
        single.append(same[0])
    matched = corrections.events.matched(single)
    alone = corrections.events.alone(found.run.run_id, matched) if task is None else []
    counts.without_input = corrections.events.without_input
    kept = []
    for rollout in (*single, *alone):
        entry = corrections.by_trace.get(rollout.trace_id)
        correction = rollout.correction or (entry.correction if entry else matched.of.get(rollout.trace_id))
        clean = _clean(rollout, correction, pii)
        if isinstance(clean, Drop):
            counts.failed.append(clean)
            continue
        for rule, n in (clean.redactions or {}).items():
            counts.redactions[rule] = counts.redactions.get(rule, 0) + n
        kept.append(clean)
    return sorted(kept, key=lambda rollout: rollout.source.path)


def _clean(rollout: Rollout, correction: Correction | None, pii: Policy | str) -> Rollout | Drop:
    rollout = msgspec.structs.replace(rollout, correction=correction)
    clean = redactor(pii).redact(rollout)
    names = [rollout.trace_id, rollout.suite, rollout.model, rollout.source.path]
    # Names of things go into rows as they are: redaction does not rename what judgments and people refer to.
    if isinstance(clean, Rollout) and (left := redactor(pii).scan([name for name in names if name])):
        return Drop(
            Stage.REDACT, "secret_left", {"rule": next(iter(left)), "text": "in a name"}, path=rollout.source.path
        )
    return clean


def unreadable(counts: Counts) -> list[dict[str, str]]:
    """Every file that gave no rollout, with its reason, by path."""
    listed = [
        {"path": drop.path or "", "reason": f"{drop.stage}/{drop.reason}", "text": _words(drop)}
        for drop in counts.failed
    ]
    return sorted(listed, key=lambda row: row["path"])


def _words(drop: Drop) -> str:
    if drop.stage is Stage.REDACT:
        return ", ".join(f"{key} {value}" for key, value in sorted(drop.evidence.items()))
    return str(drop.evidence.get("text", ""))
