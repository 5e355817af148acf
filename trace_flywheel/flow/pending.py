"""Which runs would be ingested now: everything that their partitions were made from is compared, nothing is read."""

from collections.abc import Mapping, Sequence

import msgspec

from trace_flywheel.flow.erased import Tombs
from trace_flywheel.flow.expected import Expected
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.lake.quarantine import quarantined
from trace_flywheel.lake.store import Lake
from trace_flywheel.settings import Settings
from trace_flywheel.sources.reader import Run
from trace_flywheel.sources.run_state import fingerprint as fingerprint_of


class Pending(msgspec.Struct, frozen=True):
    """Which runs would be ingested now. `given_up`: quarantined, tried often enough in their present state."""

    todo: tuple[Run, ...]
    unchanged: tuple[Run, ...]
    given_up: tuple[Run, ...]


def pending(
    runs: Sequence[Run],
    lake: Lake,
    settings: Settings,
    inputs: SideInputs,
    fingerprints: Mapping[str, str] | None = None,
    tombs: Tombs | None = None,
) -> Pending:
    """Compare every run's files, settings, rules and side inputs with what its partitions were made from.

    `fingerprints` of the runs by run id and the lake's tombstones, where the caller has them already.
    """
    todo, unchanged, given_up = [], [], []
    expected = Expected(lake, settings, inputs, tombs)
    for run in runs:
        fingerprint = fingerprint_of(run) if fingerprints is None else fingerprints[run.run_id]
        if expected.all_fresh(run.run_id, fingerprint):
            unchanged.append(run)
            continue
        known = quarantined(lake, run.run_id)
        if (
            known is not None
            and known.source_fingerprint == fingerprint
            and known.attempts >= settings.ingest.quarantine_after
        ):
            given_up.append(run)
        else:
            todo.append(run)
    return Pending(tuple(todo), tuple(unchanged), tuple(given_up))
