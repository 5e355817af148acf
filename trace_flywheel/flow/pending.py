"""Which runs are to be read: the lake's sidecars held against the folders, by fingerprint.

The lake is the truth about what is done. A run is *to do* when it has no finished partition for its present files and
settings; *given up* when it gave nothing `ingest.quarantine_after` times in this state; *waiting* when it is still
being written (asked for only by sensors: a person who refreshes wants what is there now); *gone* when the lake holds
it and its folder is away, which changes nothing: what was read stays.
"""

from collections.abc import Iterable

import msgspec

from trace_flywheel.lake.store import Lake
from trace_flywheel.settings import Settings
from trace_flywheel.sources.discover import state
from trace_flywheel.sources.reader import Run

LAST_STEP = "rollout_index"
"""The per-run asset that is written last: with it a run is done."""


class Seen(msgspec.Struct, frozen=True):
    """A run and the state of its folder at one moment."""

    run: Run
    fingerprint: str
    newest_change: float
    """Unix seconds."""
    files: int
    size: int


class Pending(msgspec.Struct, frozen=True):
    """All lists are sorted by run id."""

    todo: tuple[Seen, ...]
    unchanged: tuple[Seen, ...]
    given_up: tuple[Seen, ...]
    waiting: tuple[Seen, ...]
    gone: tuple[str, ...]


def pending(runs: Iterable[Run], lake: Lake, settings: Settings, now: float | None = None) -> Pending:
    """Sort the runs found below the roots. With `now` (Unix seconds), unfinished and just changed folders wait."""
    done = {s.run_id: s for s in lake.sidecars(LAST_STEP)}
    lists: dict[str, list[Seen]] = {"todo": [], "unchanged": [], "given_up": [], "waiting": []}
    found = set()
    for run in sorted(runs, key=lambda r: r.run_id):
        found.add(run.run_id)
        is_now = state(run)
        seen = Seen(run, is_now.fingerprint, is_now.newest_change, is_now.files, is_now.size)
        lists[_place(seen, run.run_id in done and is_current(lake, seen, settings), lake, settings, now)].append(seen)
    gone = tuple(sorted(set(done) - found))
    return Pending(**{name: tuple(seen) for name, seen in lists.items()}, gone=gone)


def _place(seen: Seen, is_done: bool, lake: Lake, settings: Settings, now: float | None) -> str:
    if is_done:
        return "unchanged"
    if now is not None and (not seen.run.finished or now - seen.newest_change < settings.ingest.quiet_seconds):
        return "waiting"
    failed = lake.quarantined(seen.run.run_id)
    if failed and failed.source_fingerprint == seen.fingerprint and failed.attempts >= settings.ingest.quarantine_after:
        return "given_up"
    return "todo"


def is_current(lake: Lake, seen: Seen, settings: Settings) -> bool:
    """Whether the last step's partition was made from these files under these settings."""
    sidecar = lake.sidecar(LAST_STEP, seen.run.run_id)
    return sidecar is not None and sidecar.source_fingerprint == seen.fingerprint
