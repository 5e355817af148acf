"""Dagster's SQLite storage with connections that are kept, for runs in this process.

Dagster opens a database for every event and closes it, which writes its log back and syncs both files: in a small
refresh that took a fifth of the CPU. Here one connection a database is kept, and what it commits
is synced when SQLite writes its log back, not each time (`synchronous=NORMAL`): after a power cut a database is whole
and lacks its last events, so that a run is told as lost. Nothing but the history of runs rests in these files, and
other programs read and write them meanwhile as ever.

The events of a range run, two a partition and asset, are written many in a transaction, as in PostgreSQL.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._core.events import ASSET_EVENTS
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.storage.sqlite_storage import (
    DagsterSqliteStorage,
    _event_logs_directory,
    _runs_directory,
    _schedule_directory,
)
from sqlalchemy import Connection, Engine, create_engine, event

MODULE, CLASS = __name__, "KeptSqliteStorage"
"""What the settings of an instance name."""


BATCH_EVENTS = 1000


@contextmanager
def events_together() -> Iterator[None]:
    """Within it Dagster hands the events of a range run over in batches. What it is told itself counts."""
    name = "DAGSTER_EVENT_BATCH_SIZE"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(BATCH_EVENTS)
    try:
        yield
    finally:
        del os.environ[name]


_revisions: dict[str | None, ScriptDirectory] = {}


@contextmanager
def _revisions_read_once() -> Iterator[None]:
    """Within it Dagster's revisions are read once for all databases of this process: to ask for the newest one, and to
    note it down, alembic runs ninety scripts each, which took most of the time of making a home's history."""
    read = ScriptDirectory.from_config

    def known(config: Config) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        if place not in _revisions:
            _revisions[place] = read(config)
        return _revisions[place]

    ScriptDirectory.from_config = known  # type: ignore[method-assign] # Dagster's own calls are meant
    try:
        yield
    finally:
        ScriptDirectory.from_config = read  # type: ignore[method-assign]


class _Kept:
    """Engines by the address of their database, each with the connections that it keeps."""

    def __init__(self) -> None:
        self._engines: dict[str, Engine] = {}

    def of(self, address: str) -> Engine:
        if address not in self._engines:
            engine = create_engine(address, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})
            event.listen(engine, "connect", _relaxed)
            self._engines[address] = engine
        return self._engines[address]

    def close(self) -> None:
        for engine in self._engines.values():
            engine.dispose()
        self._engines.clear()


def _is_of_asset(entry: EventLogEntry) -> bool:
    return entry.is_dagster_event and entry.dagster_event_type in ASSET_EVENTS


def _relaxed(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA journal_mode=WAL")  # Dagster's own choice, here before it makes its tables
    connection.execute("PRAGMA synchronous=NORMAL")


class KeptEventLogStorage(SqliteEventLogStorage):
    """Events, a database a run and one of all assets."""

    def __init__(self, base_dir: str) -> None:
        self._kept = _Kept()
        self._tables: set[str] = set()
        self._columns: set[str] = set()
        super().__init__(base_dir)
        self._end_making()

    def _end_making(self) -> None:
        """Make what is missing of a database whose maker found the disk full or was killed. Dagster takes the file for
        the whole: it would ask for a migration of a history that never began."""
        with self.index_connection():
            pass
        self.reindex_events()
        self.reindex_assets()

    def has_table(self, table_name: str) -> bool:
        """Asked for every event; a table that is there stays there."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def has_asset_key_col(self, column_name: str) -> bool:
        """Asked for every step's inputs; a column that is there stays there."""
        if column_name not in self._columns and super().has_asset_key_col(column_name):
            self._columns.add(column_name)
        return column_name in self._columns

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """`store_event` of each, in their order, stretches of asset events in one transaction a database."""
        for together, stretch in groupby(events, _is_of_asset):
            if together:
                self._store_asset_events(list(stretch))
            else:
                super().store_event_batch(list(stretch))

    def _store_asset_events(self, entries: Sequence[EventLogEntry]) -> None:
        rows = [self._event_to_row(entry) for entry in entries]
        insert = SqlEventLogStorageTable.insert()
        for run_id in dict.fromkeys(row["run_id"] for row in rows):
            with self.run_connection(run_id) as connection:
                connection.execute(insert, [row for row in rows if row["run_id"] == run_id])
        with self.index_transaction() as connection:
            ids = [connection.execute(insert, row).lastrowid for row in rows]
            self._store_asset_event_tags(connection, entries, ids)
            # what is known of an asset is what its last event of a kind says
            last = {(row["asset_key"], row["dagster_event_type"]): n for n, row in enumerate(rows)}
            for n in sorted(last.values()):
                self._store_asset_event(connection, entries[n], ids[n])

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            engine = self._kept.of(self.conn_string_for_shard(shard))
            if shard not in self._initialized_dbs:
                with _revisions_read_once():
                    self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.begin() as connection:
                yield connection

    def dispose(self) -> None:
        super().dispose()
        self._kept.close()


class KeptRunStorage(SqliteRunStorage):
    """Runs and their snapshots, partitions, cursors."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self._kept = _Kept()
        super().__init__(*given, **named)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with self._kept.of(self._conn_string).begin() as connection:
            yield connection

    def dispose(self) -> None:
        super().dispose()
        self._kept.close()


class KeptSqliteStorage(DagsterSqliteStorage):
    """All of an instance's storage, in the files of Dagster's own."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        # In the place of the parent's, which would make its own storages first.
        super(DagsterSqliteStorage, self).__init__()  # type: ignore[no-untyped-call]
        self.base_dir, self._inst_data = base_dir, inst_data
        with _revisions_read_once():
            self._run_storage = KeptRunStorage.from_local(_runs_directory(base_dir))
            self._event_log_storage = KeptEventLogStorage(_event_logs_directory(base_dir))
            self._schedule_storage = SqliteScheduleStorage.from_local(_schedule_directory(base_dir))

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> "KeptSqliteStorage":
        return cls.from_local(inst_data=inst_data, **config_value)
