"""Connections to Dagster's SQLite files are kept; the files are Dagster's own, and other programs see every event."""

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from alembic.script import ScriptDirectory
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.events import AssetMaterializationPlannedData, StepMaterializationData
from dagster._core.events.log import EventLogEntry
from sqlalchemy import text

from trace_flywheel.orchestration import storage
from trace_flywheel.orchestration.instance import dagster_home, instance
from trace_flywheel.orchestration.storage import KeptEventLogStorage, events_together


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


def test_a_column_is_looked_for_until_it_is_found(tmp_path: Path) -> None:
    with instance(tmp_path) as one:
        asked: list[str] = []
        kept, real = one.event_log_storage, one.event_log_storage._has_asset_key_col_on_connection

        def counted(connection: Any, name: str) -> bool:
            asked.append(name)
            return real(connection, name)

        kept._has_asset_key_col_on_connection = counted
        assert [kept.has_asset_key_col("cached_status_data") for _ in range(3)] == [True] * 3
        assert [kept.has_asset_key_col("not_there_yet") for _ in range(2)] == [False] * 2
        assert asked == ["cached_status_data", "not_there_yet", "not_there_yet"]


def test_nothing_is_kept_open_once_the_instance_is_disposed_of(tmp_path: Path) -> None:
    with instance(tmp_path) as one:
        run_once(one)
    assert not list((tmp_path / "dagster").rglob("*-wal"))


def databases(home: Path) -> list[Path]:
    return sorted((home / "dagster" / "storage").rglob("*.db"))


def schema(path: Path) -> list[Any]:
    """Tables, indexes and the revision that a database says it has."""
    with sqlite3.connect(path) as connection:
        revision = connection.execute("select version_num from alembic_version").fetchall()
        return [revision, *connection.execute("select type, name, sql from sqlite_master order by 1, 2")]


def test_the_databases_are_those_that_dagster_makes(tmp_path: Path) -> None:
    with instance(tmp_path / "kept") as one:
        run_once(one)
    dagster_home(tmp_path / "plain")
    with dg.DagsterInstance.from_config(str(tmp_path / "plain" / "dagster")) as other:
        run_once(other)
    kept, plain = databases(tmp_path / "kept"), databases(tmp_path / "plain")
    assert len(kept) == 4  # runs, schedules, events of all assets, events of the run
    assert [schema(path)[1:] for path in kept if path.stem in ("index", "runs", "schedules")] == [
        schema(path)[1:] for path in plain if path.stem in ("index", "runs", "schedules")
    ]
    revisions = {str(schema(path)[0]) for path in (*kept, *plain)}
    assert len(revisions) == 1


@pytest.mark.parametrize(
    "left",
    [
        ("drop table secondary_indexes", "drop table dynamic_partitions", "drop table alembic_version"),
        ("drop table alembic_version",),
        ("delete from secondary_indexes",),
        (),
    ],
)
def test_a_history_whose_maker_was_stopped_is_made_to_its_end(tmp_path: Path, left: tuple[str, ...]) -> None:
    with instance(tmp_path / "whole") as one:
        one.add_dynamic_partitions("runs", ["a"])
    with instance(tmp_path / "stopped"):
        pass
    (index,) = (path for path in databases(tmp_path / "stopped") if path.stem == "index")
    if left:
        with sqlite3.connect(index) as connection:
            for statement in left:
                connection.execute(statement)
    else:
        index.write_bytes(b"")  # the disk was full at once
    with instance(tmp_path / "stopped") as one:
        one.add_dynamic_partitions("runs", ["a"])
        assert one.get_dynamic_partitions("runs") == ["a"]
        run_once(one)
        assert one.event_log_storage.has_secondary_index("asset_key_index_columns")
    whole = (path for path in databases(tmp_path / "whole") if path.stem == "index")
    assert {entry[1] for entry in schema(index)[1:]} == {entry[1] for entry in schema(next(whole))[1:]}


def test_dagsters_revisions_are_read_once_for_all_databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[ScriptDirectory] = []
    load = ScriptDirectory._load_revisions

    def counted(self: ScriptDirectory) -> Any:
        loaded.append(self)
        return load(self)

    monkeypatch.setattr(storage, "_revisions", {})
    monkeypatch.setattr(ScriptDirectory, "_load_revisions", counted)
    real = ScriptDirectory.from_config
    with instance(tmp_path / "a") as one:
        run_once(one)
        run_once(one)
    with instance(tmp_path / "b"):
        pass
    assert len(loaded) == 1
    assert ScriptDirectory.from_config == real


def test_an_older_home_is_left_as_it_is_until_dagster_migrates_it(tmp_path: Path) -> None:
    with instance(tmp_path) as one:
        run_id = run_once(one)
    found = databases(tmp_path)
    newest = schema(found[0])[0]
    for path in found:
        with sqlite3.connect(path) as connection:
            connection.execute("update alembic_version set version_num = '7e2f3204cf8e'")
    with instance(tmp_path) as one:
        assert one.get_run_by_id(run_id) is not None
    assert {str(schema(path)[0]) for path in found} == {"[('7e2f3204cf8e',)]"}
    command = [sys.executable, "-m", "dagster", "instance", "migrate"]
    env = {"DAGSTER_HOME": str(dagster_home(tmp_path)), "PATH": ""}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [schema(path)[0] for path in found] == [newest] * len(found)
    with instance(tmp_path) as one:
        assert len(one.all_logs(run_id)) > 5


def entries(run_id: str) -> list[EventLogEntry]:
    """What a range run of two assets and a check tells: planned events, then materialisations."""

    def of(event: dg.DagsterEvent) -> EventLogEntry:
        return EventLogEntry(None, 10, "", run_id, 1.5, job_name="job", dagster_event=event)

    def planned(name: str, key: str) -> dg.DagsterEvent:
        data = AssetMaterializationPlannedData(dg.AssetKey(name), partition=key)
        return dg.DagsterEvent.build_asset_materialization_planned_event("job", name, data)

    def made(name: str, key: str) -> dg.DagsterEvent:
        said = dg.AssetMaterialization(name, partition=key, metadata={"key": key}, tags={"dagster/data_version": key})
        data = StepMaterializationData(said)
        return dg.DagsterEvent("ASSET_MATERIALIZATION", "job", step_key=name, event_specific_data=data)

    check = dg.DagsterEvent(
        "ASSET_CHECK_EVALUATION_PLANNED",
        "job",
        step_key="a_check",
        event_specific_data=AssetCheckEvaluationPlanned(asset_key=dg.AssetKey("a"), check_name="check"),
    )
    keys = ("r/1", "r/2", "r/3")
    both = [(name, key) for name in "ab" for key in keys]
    events = [*(planned(*one) for one in both[:2]), check, *(planned(*one) for one in both[2:])]
    return [of(event) for event in (*events, *(made(*one) for one in both))]


def stored(one: dg.DagsterInstance, run_id: str) -> dict[str, list[Any]]:
    """Every row of the tables that events are in, but for the time at which they were made."""
    found: dict[str, list[Any]] = {}
    kept = one.event_log_storage
    for shard, names in ((run_id, ["event_logs"]), ("index", ["event_logs", "asset_keys", "asset_event_tags"])):
        with kept._connect(shard) as connection:
            for name in names:
                rows = connection.execute(text(f"select * from {name} order by 1")).mappings().all()
                left = [
                    {k: v for k, v in row.items() if k not in ("create_timestamp", "cached_status_data")}
                    for row in rows
                ]
                found[f"{shard}.{name}"] = left
    with kept._connect("index") as connection:
        found["checks"] = connection.execute(
            text("select check_name, execution_status from asset_check_executions")
        ).all()
    return found


def test_events_written_together_are_those_written_one_by_one(tmp_path: Path) -> None:
    run_id = "00000000-0000-0000-0000-000000000001"
    with instance(tmp_path / "together") as one, instance(tmp_path / "alone") as other:
        one.event_log_storage.store_event_batch(entries(run_id))
        for entry in entries(run_id):
            other.event_log_storage.store_event(entry)
        found = stored(one, run_id)
        assert found == stored(other, run_id)
        assert len(found["index.event_logs"]) == 13
        assert len(found[f"{run_id}.event_logs"]) == 13
        assert len(found["index.asset_event_tags"]) == 6
        assert [row["last_run_id"] for row in found["index.asset_keys"]] == [run_id, run_id]
        assert len(found["checks"]) == 1


def test_a_batch_is_a_transaction_and_not_one_an_event(tmp_path: Path) -> None:
    run_id = "00000000-0000-0000-0000-000000000001"
    with instance(tmp_path) as one:
        opened: list[str] = []
        kept, real = one.event_log_storage, one.event_log_storage._connect

        @contextmanager
        def connected(shard: str) -> Iterator[Any]:
            opened.append(shard)
            with real(shard) as connection:
                yield connection

        kept._connect = connected
        kept.store_event_batch(
            [e for e in entries(run_id) if e.dagster_event.event_type_value != "ASSET_CHECK_EVALUATION_PLANNED"]
        )
        assert opened == [run_id, "index"]


def test_dagster_is_asked_to_batch_unless_it_was_told_how(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "DAGSTER_EVENT_BATCH_SIZE"
    monkeypatch.delenv(name, raising=False)
    with events_together():
        assert os.environ[name] == "1000"
    assert name not in os.environ
    monkeypatch.setenv(name, "0")
    with events_together():
        assert os.environ[name] == "0"
    assert os.environ[name] == "0"
