"""`lake/quarantine/<run>.json`: run folders that gave nothing, why, and how often they were tried as they are now."""

from pathlib import Path

import msgspec

from trace_flywheel.lake.files import is_temporary, replace_text
from trace_flywheel.lake.sidecar import encode_run, pretty
from trace_flywheel.lake.store import Lake


class Quarantine(msgspec.Struct, frozen=True):
    """A run folder that gave nothing: why, and how often it was tried in this state."""

    run_id: str
    reason: str
    source_fingerprint: str
    attempts: int = 1


def quarantined(lake: Lake, run_id: str) -> Quarantine | None:
    path = _path(lake, run_id)
    return msgspec.json.decode(path.read_bytes(), type=Quarantine) if path.is_file() else None


def quarantine(lake: Lake, run_id: str, reason: str, source_fingerprint: str) -> Quarantine:
    """Note that a run gave nothing; tries of the same state of the folder are counted."""
    lake.prepare()
    before = quarantined(lake, run_id)
    same = before is not None and before.source_fingerprint == source_fingerprint
    entry = Quarantine(run_id, reason, source_fingerprint, before.attempts + 1 if before and same else 1)
    replace_text(_path(lake, run_id), pretty(entry))
    return entry


def release(lake: Lake, run_id: str) -> None:
    """Forget a quarantine: the run was read."""
    _path(lake, run_id).unlink(missing_ok=True)


def quarantines(lake: Lake) -> tuple[Quarantine, ...]:
    """All quarantined runs, sorted by run id."""
    paths = (lake.root / "quarantine").glob("*.json")
    entries = [msgspec.json.decode(p.read_bytes(), type=Quarantine) for p in paths if not is_temporary(p)]
    return tuple(sorted(entries, key=lambda q: q.run_id))


def _path(lake: Lake, run_id: str) -> Path:
    return lake.root / "quarantine" / f"{encode_run(run_id)}.json"
