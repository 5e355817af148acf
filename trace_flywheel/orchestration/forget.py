"""What Dagster's history says of published rows, taken out of its files after an erasure.

The pages of datasets show the first rows of each version, so the history of publications holds text. An erasure ends
that history whole: which of its rows held the text cannot be told once their versions are gone. The history of
ingestion holds no text and stays, and so do partitions, sensors and their cursors.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import dagster as dg

from trace_flywheel.flow.ingest_tasks import GRADED, INDEX, REDACTED
from trace_flywheel.orchestration.instance import dagster_home, instance
from trace_flywheel.records.errors import FlywheelError

_SILENT = frozenset({GRADED, REDACTED, INDEX})
"""Assets whose pages show counts only."""


def forget_previews(home: Path) -> int:
    """Delete the runs that published something, and their bytes; how many runs there were."""
    with instance(home) as history:
        runs = [run.run_id for run in history.get_runs() if _published(history, run.run_id)]
        # The newest materialisation of an asset is kept a second time, with the asset.
        history.wipe_assets([key for key in history.all_asset_keys() if key.to_user_string() not in _SILENT])
        for run_id in runs:
            history.delete_run(run_id)
    # A deleted row's bytes stay in the file, and in its journal, until both are written anew.
    for path in sorted(dagster_home(home).rglob("*.db")):
        try:
            with closing(sqlite3.connect(path, timeout=60)) as database:
                database.execute("VACUUM")
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:
            raise FlywheelError(
                f"{path}: Dagster's history cannot be written anew ({error}); stop `flywheel ui` and purge again"
            ) from None
    return len(runs)


def forget_history(home: Path) -> None:
    """Remove all that Dagster knows: the name of a run stands in everything that it says of its partition. Runs are
    found again by their folders; sensors are off as at the first start."""
    folder = dagster_home(home)
    for name in ("storage", "artifacts", "logs"):
        shutil.rmtree(folder / name, ignore_errors=True)


def _published(history: dg.DagsterInstance, run_id: str) -> bool:
    records = history.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    keys = (entry.dagster_event.asset_key for entry in records if entry.dagster_event is not None)
    return any(key is not None and key.to_user_string() not in _SILENT for key in keys)
