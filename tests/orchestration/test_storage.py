"""Connections to Dagster's SQLite files are kept; the files are Dagster's own, and other programs see every event."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import text

from trace_flywheel.orchestration import storage
from trace_flywheel.orchestration.instance import dagster_home, instance
from trace_flywheel.orchestration.storage import KeptEventLogStorage


@dg.asset
def thing() -> None: ...


def run_once(one: dg.DagsterInstance) -> str:
    result = dg.Definitions(assets=[thing]).resolve_implicit_global_asset_job_def().execute_in_process(instance=one)
    assert result.success
    return result.run_id


def test_a_database_is_opened_once_however_many_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    relaxed = storage._relaxed

    def noted(connection: Any, record: Any) -> None:
        opened.append(connection.execute("pragma database_list").fetchone()[2])
        relaxed(connection, record)

    monkeypatch.setattr(storage, "_relaxed", noted)
    with instance(tmp_path) as one:
        runs = {run_once(one), run_once(one)}
        assert all(len(one.all_logs(run_id)) > 5 for run_id in runs)
    assert {Path(name).stem for name in opened} == {"index", "runs", *runs}
    assert max(Counter(opened).values()) <= 2  # making the tables takes a second one


def test_what_is_committed_is_whole_after_a_power_cut_though_perhaps_not_last(tmp_path: Path) -> None:
    with instance(tmp_path) as one:
        assert isinstance(one.event_log_storage, KeptEventLogStorage)
        with one.event_log_storage.index_connection() as connection:
            assert connection.execute(text("pragma synchronous")).scalar() == 1  # NORMAL
            assert connection.execute(text("pragma journal_mode")).scalar() == "wal"


def test_another_program_with_dagsters_own_storage_sees_the_runs_meanwhile(tmp_path: Path) -> None:
    with instance(tmp_path) as one:
        run_id = run_once(one)
        code = (
            "import dagster as dg\n"
            "one = dg.DagsterInstance.get()\n"
            "print(type(one.event_log_storage).__name__)\n"
            f"print(one.get_run_by_id({run_id!r}).status.value, len(one.all_logs({run_id!r})))\n"
            "one.add_dynamic_partitions('runs', ['r/a'])\n"
        )
        env = {"DAGSTER_HOME": str(dagster_home(tmp_path)), "PATH": ""}
        said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        assert said.stdout.split() == ["SqliteEventLogStorage", "SUCCESS", str(len(one.all_logs(run_id)))]
        assert list(one.get_dynamic_partitions("runs")) == ["r/a"]


def test_nothing_is_kept_open_once_the_instance_is_disposed_of(tmp_path: Path) -> None:
    with instance(tmp_path) as one:
        run_once(one)
    assert not list((tmp_path / "dagster").rglob("*-wal"))
