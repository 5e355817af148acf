"""What all runs share: the goldens that must not be trained on and the corrections that humans wrote.

Each is read once, in the order of its paths, and known by a digest of its content; faults are kept, because a golden
skipped in silence leaks and a correction skipped in silence is lost work.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.golden import CorrectionEntry, Golden
from trace_flywheel.redaction.redact import NumberFindingError, Redactor, SecretLeftError, redactor
from trace_flywheel.settings import Settings
from trace_flywheel.sources.corrections import read_corrections
from trace_flywheel.sources.goldens import goldens_above, read_goldens
from trace_flywheel.sources.reader import ReadOptions, Run


class SideInputs(msgspec.Struct, frozen=True, dict=True):
    """Goldens and corrections in force, and the lines of their files that could not be used."""

    goldens: tuple[Golden, ...] = ()
    corrections: tuple[CorrectionEntry, ...] = ()
    problems: tuple[Drop, ...] = ()

    @cached_property
    def goldens_digest(self) -> str:
        """Of what the goldens say, not of where they stand."""
        return content_id(sorted({(g.suite or "", g.task_id, g.statement, g.answer) for g in self.goldens}))

    def corrections_of(self, run_id: str) -> dict[str, CorrectionEntry]:
        """By trace id: those that name this run (by its id or its folder's name) or none."""
        names = {None, run_id, run_id.rsplit("/", 1)[-1]}
        ordered = sorted((c for c in self.corrections if c.run_id in names), key=lambda c: c.run_id is not None)
        return {c.trace_id: c for c in ordered}


def side_inputs(runs: Sequence[Run], settings: Settings) -> SideInputs:
    """The goldens above all runs and of the settings, and the settings' corrections."""
    paths = sorted({*settings.goldens.paths, *(p for run in runs for p in goldens_above(run))})
    goldens, golden_faults = _parted(item for path in paths for item in read_goldens(path))
    entries, entry_faults = _parted(item for path in settings.corrections for item in read_corrections(path))
    # A golden passes the same redactor as the rollouts, or a redacted name would hide it from the search.
    rules = redactor(settings.redaction.pii)
    return SideInputs(
        tuple(_redacted(g, rules) for g in goldens if isinstance(g, Golden)),
        tuple(c for c in entries if isinstance(c, CorrectionEntry)),
        (*golden_faults, *entry_faults),
    )


def _redacted(golden: Golden, redactor: Redactor) -> Golden:
    try:
        statement, answer = (redactor.redact_value(text)[0] for text in (golden.statement, golden.answer))
    except (NumberFindingError, SecretLeftError):  # no rollout with this text comes through either
        return golden
    return msgspec.structs.replace(golden, statement=statement, answer=answer)


def _parted(items: Iterable[Golden | CorrectionEntry | Drop]) -> tuple[list[Golden | CorrectionEntry], list[Drop]]:
    good: list[Golden | CorrectionEntry] = []
    bad: list[Drop] = []
    for item in items:
        if isinstance(item, Drop):
            bad.append(item)
        else:
            good.append(item)
    return good, bad


def read_options(settings: Settings) -> ReadOptions:
    """What reading depends on, from the settings."""
    return ReadOptions(
        max_line_bytes=int(settings.ingest.max_line_mb * 1_000_000),
        pass_reward=settings.grading.pass_reward,
        verdict_map=dict(settings.grading.verdict_map),
    )
