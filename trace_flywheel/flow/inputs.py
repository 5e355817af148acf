"""What all runs share: goldens that must not be trained on, corrections that humans wrote, grades that came later.

Each is read once, in the order of its paths, and known by a digest of its content; faults are kept, because a golden
skipped in silence leaks and a correction or a verdict skipped in silence is lost work.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec

from trace_flywheel.curation.holdout import fingerprint
from trace_flywheel.flow.golden_files import Stamp, is_another, read_whole
from trace_flywheel.flow.golden_text import redacted_golden
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.lake.goldens import KnownFile
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.golden import CorrectionEntry, Golden
from trace_flywheel.records.grading import JudgeEntry, VerdictEntry
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.settings import Settings
from trace_flywheel.sources.corrections import read_corrections
from trace_flywheel.sources.goldens import goldens_above, read_goldens
from trace_flywheel.sources.judge_scores import read_judge_scores
from trace_flywheel.sources.reader import ReadOptions, Run
from trace_flywheel.sources.verdicts import read_verdicts

Entry = TypeVar("Entry")


class SideInputs(msgspec.Struct, frozen=True, dict=True):
    """Goldens and corrections in force, and the lines of their files that could not be used."""

    goldens: tuple[Golden, ...] = ()
    corrections: tuple[CorrectionEntry, ...] = ()
    problems: tuple[Drop, ...] = ()
    verdicts: tuple[VerdictEntry, ...] = ()
    judge_scores: tuple[JudgeEntry, ...] = ()
    golden_files: dict[str, str] = {}
    """Fingerprint (12 hex digits of the bytes' sha256) of every golden file, by folder and name."""

    golden_faults: tuple[str, ...] = ()
    """Lines of golden files that cannot be read, as `file:line: fault`."""

    known: dict[str, KnownFile] = {}
    """Every golden file that holds out, by absolute path: what the home is to remember."""

    present: frozenset[str] = frozenset()
    """Ids of the runs that are there now."""

    verdicts_away: tuple[str, ...] = ()
    """Files of verdicts that the settings name and that are not there."""

    golden_stamps: dict[str, Stamp] = {}
    """Of the golden files that are there, by absolute path, as they were before they were read."""

    def require_all(self) -> None:
        """Raise `FlywheelError` while a golden or a file of verdicts cannot be read: what is skipped would be trained
        on, and grades that verdicts took the place of would count again."""
        if self.verdicts_away:
            raise FlywheelError(
                f"{self.verdicts_away[0]}: the file of verdicts is away; put it back, or take it out of "
                "`grading.verdicts` to let the grades before it count again; no dataset is published meanwhile, "
                "earlier versions stay"
            )
        if self.golden_faults:
            more = f" (and {len(self.golden_faults) - 1} more lines)" if len(self.golden_faults) > 1 else ""
            raise FlywheelError(
                f"{self.golden_faults[0]}{more}; mend or remove the line: no dataset is published while a golden "
                "cannot be read, earlier versions stay"
            )

    def require_unchanged(self) -> None:
        """Raise `FlywheelError` where a golden file is another one than was read: it may have been read half written,
        or hold out more by now. One that is gone is held out as it was read."""
        for path, stamp in self.golden_stamps.items():
            if is_another(Path(path), stamp, self.known[path].fingerprint):
                raise FlywheelError(
                    f"{path}: changed while datasets were made; nothing is published that was held against it as it "
                    "was, earlier versions stay; refresh again"
                )

    @cached_property
    def goldens_digest(self) -> str:
        """Of what the goldens say, not of where they stand."""
        return content_id(sorted({(g.suite or "", g.task_id, g.statement, g.answer, g.aliases) for g in self.goldens}))

    @cached_property
    def grades_digest(self) -> str:
        """Of the verdicts and scores in their order, not of where they stand."""
        plain = [msgspec.structs.replace(e, path="", line=0) for e in (*self.verdicts, *self.judge_scores)]
        return content_id(msgspec.to_builtins(plain))

    @cached_property
    def _corrections_by_name(self) -> dict[str | None, list[CorrectionEntry]]:
        found: dict[str | None, list[CorrectionEntry]] = {}
        for correction in self.corrections:
            found.setdefault(correction.run_id, []).append(correction)
        return found

    @cached_property
    def superseded_corrections(self) -> list[CorrectionEntry]:
        """Those that a later one for the same trace (and run, as it is spelled) replaces."""
        last = {(c.trace_id, c.run_id): i for i, c in enumerate(self.corrections)}
        return [c for i, c in enumerate(self.corrections) if last[c.trace_id, c.run_id] != i]

    def corrections_of(self, run_id: str) -> dict[str, CorrectionEntry]:
        """By trace id: those that name this run (by its id or its folder's name) or none."""
        known = self._corrections_by_name
        named = {run_id, run_id.rsplit("/", 1)[-1]} & known.keys()
        if len(named) > 1:  # both spellings occur: the later line counts
            ordered = [c for c in self.corrections if c.run_id in named]
        else:
            ordered = [c for name in named for c in known[name]]
        return {c.trace_id: c for c in (*known.get(None, ()), *ordered)}


def side_inputs(runs: Sequence[Run], settings: Settings, before: Mapping[str, KnownFile] | None = None) -> SideInputs:
    """The goldens above all runs and of the settings, and the settings' files of corrections, verdicts and scores.

    `before` is what the home held out until now: those files count too, read again or, where they are gone, as known.
    """
    faults: list[Drop] = []
    unread: list[str] = []
    known: dict[str, KnownFile] = {}
    stamps: dict[str, Stamp] = {}
    # A golden passes the same redactor as the rollouts, or a redacted name would hide it from the search.
    rules = redactor(policy_of(settings))
    for path in golden_paths(runs, settings, before):
        last, read = (before or {}).get(str(path)), read_whole(path)
        if last is not None and read is None:
            known[str(path)] = last
            faults.append(_gone(path, last))
            continue
        first = len(faults)
        # Where the settings name what is no file, reading it tells.
        goldens = _good(Golden, read_goldens(path) if read is None else read.lines, faults)
        unread += [f"{path}{_place(fault)}" for fault in faults[first:]]
        if read is not None:
            stamps[str(path)] = read.stamp
            held_out = [redacted_golden(golden, rules) for golden in goldens]
            if len(faults) > first and last is not None:
                # What cannot be read takes nothing back: the file may be gone before it is mended.
                held_out += [golden for golden in last.goldens if golden not in held_out]
            known[str(path)] = KnownFile(read.fingerprint, tuple(held_out))
    corrections = _good(CorrectionEntry, (e for p in settings.corrections for e in read_corrections(p)), faults)
    spellings = settings.grading.verdict_map
    verdicts = _good(VerdictEntry, (e for p in settings.grading.verdicts for e in read_verdicts(p, spellings)), faults)
    scores = _good(JudgeEntry, (e for p in settings.judge_scores for e in read_judge_scores(p)), faults)
    held = tuple(golden for file in known.values() for golden in file.goldens)
    files = _named(known)
    away = tuple(str(path) for path in settings.grading.verdicts if not path.is_file())
    present = frozenset(run.run_id for run in runs)
    return SideInputs(
        held, corrections, tuple(faults), verdicts, scores, files, tuple(unread), known, present, away, stamps
    )


def _gone(path: Path, file: KnownFile) -> Drop:
    text = f"is gone; its {len(file.goldens)} goldens are still held out; `goldens.forget` lets them go"
    return Drop(Stage.READ, "unreadable_file", {"text": text}, path=str(path))


def _place(fault: Drop) -> str:
    line = f":{fault.evidence['line']}" if "line" in fault.evidence else ""
    return f"{line}: {fault.reason}"


def golden_files(
    runs: Sequence[Run], settings: Settings, before: Mapping[str, KnownFile] | None = None
) -> dict[str, str]:
    """The golden files in force with their fingerprints; files of one name are numbered in the order of their paths."""
    found: dict[str, KnownFile] = {}
    for path in golden_paths(runs, settings, before):
        if path.is_file():
            found[str(path)] = KnownFile(fingerprint(path), ())
        elif before is not None and str(path) in before:
            found[str(path)] = before[str(path)]
    return _named(found)


def _named(known: Mapping[str, KnownFile]) -> dict[str, str]:
    """Fingerprints by folder and name, no path of the machine."""
    found: dict[str, str] = {}
    for path, file in known.items():
        name = f"{Path(path).parent.name}/{Path(path).name}"
        again = sum(there.partition("#")[0] == name for there in found)
        found[f"{name}#{again + 1}" if again else name] = file.fingerprint
    return found


def golden_paths(runs: Sequence[Run], settings: Settings, before: Mapping[str, KnownFile] | None = None) -> list[Path]:
    """Absolute, sorted: of the settings, above the runs, and known before; without those to forget."""
    # Runs of one folder have the same folders above them.
    places = {(run.root, run.path.parent): run for run in runs}
    above = {path for run in places.values() for path in goldens_above(run)}
    found = {*settings.goldens.paths, *above, *map(Path, before or ())}
    forgotten = {path.absolute() for path in settings.goldens.forget}
    return sorted({path.absolute() for path in found} - forgotten)


def _good(kind: type[Entry], items: Iterable[Entry | Drop], faults: list[Drop]) -> tuple[Entry, ...]:
    """The entries; lines that are none go to `faults`."""
    good: list[Entry] = []
    for item in items:
        if isinstance(item, kind):
            good.append(item)
        else:
            assert isinstance(item, Drop)
            faults.append(item)
    return tuple(good)


def read_options(settings: Settings) -> ReadOptions:
    """What reading depends on, from the settings."""
    return ReadOptions(
        max_line_bytes=int(settings.ingest.max_line_mb * 1_000_000),
        pass_reward=settings.grading.pass_reward,
        verdict_map=dict(settings.grading.verdict_map),
    )
