"""Recordings below a folder, read, corrected and redacted one by one: what `traces-to-data` works on.

Order is that of the full paths. A file that cannot be used is a Drop with its path and reason; nothing is skipped in
silence, packed files included.
"""

from pathlib import Path

import msgspec

from trace_flywheel.curation.message_hashes import content_hash
from trace_flywheel.flow.recordings.corrected import Corrections, Unused
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.sources.atraj import PACKED_SUFFIX, SUFFIX
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
    corrections: list[Unused] = msgspec.field(default_factory=list)
    """Lines that correct nothing."""
    named: frozenset[str] = frozenset()
    """Ids of all that could be read, whatever its task."""
    failed: list[Drop] = msgspec.field(default_factory=list)
    redactions: dict[str, int] = msgspec.field(default_factory=dict)


def recordings_below(folder: Path) -> Recordings:
    """Raises `FlywheelError` where the folder is none or holds no recording."""
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "no such folder"
        raise FlywheelError(f"{folder}: {what}; give a folder that holds {SUFFIX} files")
    top = place_of(folder)
    run = Run(run_id_of(top.name), "atraj", top, top)
    units = reader("atraj").units(run)
    plain = tuple(unit for unit in units if unit.path.name.endswith(SUFFIX))
    if not plain:
        raise FlywheelError(f"{folder}: no {SUFFIX} file below it; give the folder that the recorder writes to")
    return Recordings(run, plain, tuple(unit for unit in units if unit.path.name.endswith(PACKED_SUFFIX)))


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
    others: set[str] = set()
    for unit in found.units:
        counts.scanned += 1
        for read in read_unit(found.run, unit, options):
            if isinstance(read, Drop):
                counts.failed.append(read)
            elif task is not None and read.suite != task:
                counts.other_task += 1
                others.add(read.trace_id)
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
    counts.named = frozenset(others | by_id.keys())
    joined, counts.corrections = corrections.joined(single, found.run.run_id, alone=task is None)
    kept = []
    for rollout in joined:
        clean = _clean(rollout, pii)
        if isinstance(clean, Drop):
            counts.failed.append(clean)
            continue
        for rule, n in (clean.redactions or {}).items():
            counts.redactions[rule] = counts.redactions.get(rule, 0) + n
        kept.append(clean)
    return sorted(kept, key=lambda rollout: rollout.source.path)


def _clean(rollout: Rollout, pii: Policy | str) -> Rollout | Drop:
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
