"""What lies below the roots now, held against the lake: the one view that refresh, sensors and assets start from.

*To do* is a run whose partitions were not made from its present files, settings and side inputs. Sensors let a folder
*wait* until it is finished and quiet; a person who refreshes wants what is there now. A run whose folder is *gone*
keeps what was read from it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from trace_flywheel.flow.erased import Erased, Tombs
from trace_flywheel.flow.ingest_tasks import INDEX
from trace_flywheel.flow.inputs import SideInputs, side_inputs
from trace_flywheel.flow.pending import Pending, pending
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.roots import roots_in_force
from trace_flywheel.lake.goldens import known_goldens, remember_goldens
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.errors import UsageError
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.redaction.redact import Redactor, redactor
from trace_flywheel.settings import Settings
from trace_flywheel.sources.discover import Discovery, discover
from trace_flywheel.sources.reader import Run
from trace_flywheel.sources.run_state import RunState, state


class Look(msgspec.Struct, frozen=True):
    """Runs sorted by run id, problems, and the side inputs in force."""

    found: tuple[Run, ...]
    problems: tuple[Drop, ...]
    inputs: SideInputs
    tombs: Tombs
    states: dict[str, RunState] = {}
    """By run id, of the runs that discovery looked through."""


class Watch(msgspec.Struct, frozen=True):
    """All lists are sorted by run id."""

    found: tuple[Run, ...]
    todo: tuple[Run, ...]
    unchanged: tuple[Run, ...]
    given_up: tuple[Run, ...]
    waiting: tuple[Run, ...]
    gone: tuple[str, ...]
    problems: tuple[Drop, ...]
    """What looked like a run and is none, and lines of golden and correction files that could not be used."""
    inputs: SideInputs
    fingerprints: dict[str, str]
    """Of every run's files, by run id."""
    missing: tuple[Path, ...] = ()
    """Roots that are not there; always empty where they are an error."""


def watch(settings: Settings, lake: Lake, now: float | None = None, strict: bool = True) -> Watch:
    """Look below the roots in force. With `now` (Unix seconds), unfinished and just changed folders wait.

    Where not `strict`, one missing root does not stop the others: only folders that are new or changed themselves are
    to do then, because with the root's goldens away all others would seem to have other side inputs. Publication never
    looks like this. Raises `UsageError` when there is no root, `FlywheelError` when one, or without `strict` every one,
    is missing or unreadable.
    """
    roots, missing = _roots(settings, strict)
    seen = look(settings, roots)
    inputs = seen.inputs
    waiting: list[Run] = []
    ready: list[Run] = []
    fingerprints: dict[str, str] = {}
    for run in seen.found:
        files = seen.states.get(run.run_id) or state(run)
        fingerprints[run.run_id] = files.fingerprint
        moves = now is not None and not (run.finished and files.rests(now, settings.ingest.quiet_seconds))
        (waiting if moves else ready).append(run)
    held = pending(ready, lake, settings, inputs, fingerprints, seen.tombs)
    if missing:
        todo = tuple(r for r in held.todo if _folder_changed(r, lake, fingerprints[r.run_id]))
        left = {r.run_id for r in (*todo, *held.given_up)}
        held = Pending(todo, tuple(r for r in ready if r.run_id not in left), held.given_up)
    gone = lake.run_ids(INDEX, beside=[r.run_id for r in seen.found])
    return Watch(
        found=seen.found,
        todo=held.todo,
        unchanged=held.unchanged,
        given_up=held.given_up,
        waiting=tuple(waiting),
        gone=tuple(sorted(gone)),
        problems=seen.problems,
        inputs=inputs,
        fingerprints=fingerprints,
        missing=missing,
    )


def _roots(settings: Settings, strict: bool) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """(roots to look below, roots that are missing and may be)."""
    roots = roots_in_force(settings)
    if not roots:
        raise UsageError("no roots: give `--root DIR`, or set `roots` in flywheel.toml")
    there = tuple(root for root in roots if root.exists())
    if strict or not there:
        return roots, ()
    return there, tuple(root for root in roots if root not in there)


class Seen:
    """What ingestion needs of a look: the runs, sorted by run id, the side inputs in force, and fingerprints of folders
    as they were before any was read."""

    def __init__(self, found: Sequence[Run], inputs: SideInputs, fingerprints: Mapping[str, str]) -> None:
        self.found, self.inputs = found, inputs
        self._fingerprints = dict(fingerprints)

    def fingerprints(self, runs: Sequence[Run]) -> dict[str, str]:
        """Of these runs, by run id; of those that were not looked through, as of the first time that they are asked
        for."""
        for run in runs:
            if run.run_id not in self._fingerprints:
                self._fingerprints[run.run_id] = state(run).fingerprint
        return {run.run_id: self._fingerprints[run.run_id] for run in runs}


def seen_leniently(settings: Settings) -> Seen:
    """What lies below the roots in force that are there. Raises as `watch` does without `strict`."""
    seen = look(settings, _roots(settings, strict=False)[0])
    return Seen(seen.found, seen.inputs, {run_id: state.fingerprint for run_id, state in seen.states.items()})


def look(settings: Settings, roots: Sequence[Path]) -> Look:
    """What lies below these roots, without a glance at what the lake holds of it."""
    rules = redactor(policy_of(settings))
    tombs = Tombs(Lake(settings.home))
    seen = without_erased_names(without_secret_names(discover(roots), rules), tombs.everywhere)
    inputs = _remembered(seen.runs, settings)
    return Look(seen.runs, (*seen.problems, *map(rules.safe, inputs.problems)), inputs, tombs, seen.states)


def _folder_changed(run: Run, lake: Lake, fingerprint: str) -> bool:
    indexed = lake.sidecar(INDEX, run.run_id)
    return indexed is None or indexed.source_fingerprint != fingerprint


def without_secret_names(found: Discovery, rules: Redactor) -> Discovery:
    """What may be named: a run's name is a partition's name, so a secret in it makes the run a problem, told masked."""
    text = "the name of the folder holds a secret; rename it"
    runs: list[Run] = []
    refused: list[Run] = []
    for run in found.runs:
        (runs if rules.mask(run.run_id) == run.run_id else refused).append(run)
    told = [
        Drop(
            Stage.REDACT,
            "secret_left",
            {"field": "run_id", "text": text},
            run_id=r.run_id,
            path=r.path.relative_to(r.root).as_posix(),
        )
        for r in refused
    ]
    problems = tuple(map(rules.safe, (*found.problems, *told)))
    return msgspec.structs.replace(found, runs=tuple(runs), problems=problems)


def without_erased_names(found: Discovery, erased: Erased) -> Discovery:
    """The same for names that hold an erased value: they would bring it back as the name of a partition."""
    named = erased.names([run.run_id for run in found.runs])
    if not named:
        return found
    text = "the name of the folder holds an erased value; rename it"
    left = tuple(run for run in found.runs if run.run_id not in named)
    places = (erased.safe(run.root.name) for run in found.runs if run.run_id in named)
    told = (Drop(Stage.READ, "purged", {"by": "name", "text": text}, path=place) for place in places)
    return msgspec.structs.replace(found, runs=left, problems=(*found.problems, *told))


def side_inputs_now(settings: Settings) -> SideInputs:
    """Goldens and corrections as they are now. A missing root is an error: goldens that vanish would leak."""
    return _remembered(discover(roots_in_force(settings)).runs, settings)


def _remembered(runs: Sequence[Run], settings: Settings) -> SideInputs:
    """Side inputs with the goldens that this home knows, which it knows from now on."""
    inputs = side_inputs(runs, settings, known_goldens(settings.home))
    remember_goldens(settings.home, inputs.known)
    return inputs
