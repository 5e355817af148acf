"""The gathered index holds what the partitions hold, through every change, and saves opening them."""

import errno
import fcntl
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from trace_flywheel.flow import ahead, columns, gathered, packs
from trace_flywheel.flow.erasable import find_trace
from trace_flywheel.flow.frame import Index, agreeing, load_index
from trace_flywheel.flow.gathered import index_rows
from trace_flywheel.flow.ingest import ingest
from trace_flywheel.flow.ingest_tasks import INDEX
from trace_flywheel.flow.purge import purge
from trace_flywheel.flow.watch import watch
from trace_flywheel.lake.index import GATHERED
from trace_flywheel.lake.lock import WORKER, working
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.lake.store import Lake
from trace_flywheel.settings import Settings, load_settings

RUNS = 8


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(gathered, "FEW", 2)
    for number in range(RUNS):
        write_run(tmp_path, f"r{number}", "Done.")
    return load_settings(
        home=tmp_path / "home", roots=(tmp_path / "jobs",), ingest={"workers": 1}, layouts=("messages",)
    )


def write_run(folder: Path, name: str, answer: str, attempts: int = 2) -> None:
    path = folder / "jobs" / "runs" / name / "results.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    messages = [{"role": "user", "content": f"Add {name} to the table."}, {"role": "assistant", "content": answer}]
    row = {"task_id": "add", "messages": messages, "verdict": "pass", "reward": 1.0, "grader": "g"}
    path.write_text(json.dumps([{**row, "trace_id": f"{name}-a{attempt}"} for attempt in range(attempts)]))


def read_all(settings: Settings) -> Lake:
    lake = Lake(settings.home)
    seen = watch(settings, lake)
    ingest(seen.todo, lake, settings, seen.inputs, workers=1)
    return lake


def ordered(table: pa.Table) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = table.to_pylist()
    return sorted(rows, key=lambda row: (str(row["run_id"]), str(row["trace_id"])))


def alone(lake: Lake) -> list[dict[str, object]]:
    """What the partitions say, each opened."""
    return ordered(pa.concat_tables(t for run in agreeing(lake)[0] for t in gathered._read(lake, run, gathered.SCHEMA)))


def opened(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> int:
    """Partitions that a load of the index opens."""
    seen: list[str] = []
    before = gathered._read
    monkeypatch.setattr(
        gathered,
        "_read",
        lambda lake, run, schema: (seen.append(run.run_id), before(lake, run, schema))[1],
    )
    load_index(lake)
    monkeypatch.setattr(gathered, "_read", before)
    return len(seen)


def test_a_run_that_is_new_or_changed_is_the_only_one_opened(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = read_all(settings)
    assert [opened(lake, monkeypatch) for _ in range(2)] == [RUNS, 0]
    write_run(tmp_path, "r3", "Done, with another word.")
    write_run(tmp_path, "r9", "Done.")
    lake = read_all(settings)
    assert [opened(lake, monkeypatch) for _ in range(2)] == [2, 2], "two are too few to gather anew"
    assert ordered(index_rows(lake, agreeing(lake)[0])) == alone(lake)
    write_run(tmp_path, "r4", "Done as well.")
    lake = read_all(settings)
    assert [opened(lake, monkeypatch) for _ in range(2)] == [3, 0]
    assert ordered(index_rows(lake, agreeing(lake)[0])) == alone(lake)


def long_columns(lake: Lake) -> list[object]:
    """All that the long columns of the index say, by row of the frame."""
    index = load_index(lake)
    some = np.arange(len(index.frame)) % 3 != 1
    found: list[object] = [index.frame["trace_id"].tolist()]
    for mask in (some, ~some, np.ones(len(some), dtype=bool)):
        for spans in index.columns.spans(mask):
            found += [spans.sketches.tolist(), spans.values.tolist(), spans.offsets.tolist()]
        for lists in index.columns.messages(mask):
            found += [lists.values.tolist(), lists.offsets.tolist()]
    return found


def unpacked(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The same where every run stands alone."""
    with monkeypatch.context() as patch:
        patch.setattr(columns, "gathered", lambda lake, runs: gathered.Gathered(None, frozenset(), {}))
        return long_columns(lake)


def test_long_columns_are_the_same_packed_and_alone(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "PACK_ROWS", 5)
    monkeypatch.setattr(packs, "SMALL_ROWS", 3)
    write_run(tmp_path, "r2", "Done, four times.", attempts=4)  # too large for a pack
    lake = read_all(settings)
    assert long_columns(lake) == unpacked(lake, monkeypatch)
    assert len(list((lake.root / GATHERED).rglob("long-*.parquet"))) == 3
    write_run(tmp_path, "r3", "Done, with another word.")
    write_run(tmp_path, "r9", "Done.")
    lake = read_all(settings)
    assert long_columns(lake) == unpacked(lake, monkeypatch), "two stand alone among packs"
    write_run(tmp_path, "r4", "Done, and it grew.", attempts=5)
    shutil.rmtree(tmp_path / "jobs" / "runs" / "r6")
    lake = read_all(settings)
    assert long_columns(lake) == unpacked(lake, monkeypatch), "packs are made of packs and of what was opened"


def opened_for(index: Index, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files that are opened for the messages of all rows."""
    seen: list[str] = []
    before = columns.read_columns
    with monkeypatch.context() as patch:
        patch.setattr(columns, "read_columns", lambda path, *rest: (seen.append(path.name), before(path, *rest))[1])
        index.columns.messages(np.ones(len(index.frame), dtype=bool))
    return seen


def test_packed_runs_are_not_opened(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = read_all(settings)
    index = load_index(lake)
    seen = opened_for(index, monkeypatch)
    assert seen == ["long-00000.parquet"]
    gathered.forget(lake)
    with pytest.raises(LakeError, match="gathered anew"):
        index.columns.messages(np.ones(len(index.frame), dtype=bool))


def test_small_runs_that_take_turns_with_large_ones_read_their_pack_once(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "SMALL_ROWS", 3)
    monkeypatch.setattr(ahead, "worker_count", lambda _: 1)
    for n in (2, 4, 6):
        write_run(tmp_path, f"r{n}", f"Done, and it grew by {n}.", attempts=5)
    lake = read_all(settings)
    seen = opened_for(load_index(lake), monkeypatch)
    assert sorted(seen) == ["long-00000.parquet", *["part-00000.parquet"] * 3]
    assert long_columns(lake) == unpacked(lake, monkeypatch)


@pytest.mark.parametrize("error", [PermissionError(), OSError(errno.EROFS, "Read-only file system")])
def test_a_home_that_may_only_be_read_gathers_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    lake = read_all(settings)

    def refused(*_: object) -> None:
        raise error

    monkeypatch.setattr(Lake, "put", refused)
    assert ordered(index_rows(lake, agreeing(lake)[0])) == alone(lake)
    assert long_columns(lake) == unpacked(lake, monkeypatch)


def test_a_reader_gathers_nothing_while_another_process_is_at_work(settings: Settings) -> None:
    """It may be reading what was gathered before, which would go."""
    lake = read_all(settings)
    index_rows(lake, agreeing(lake)[0])
    for number in range(3, RUNS):
        write_run(settings.roots[0].parent, f"r{number}", "Done anew.")
    read_all(settings)
    before = lake.current(GATHERED)
    for name in ("lock", WORKER):
        with open(settings.home / name, "a") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            assert ordered(index_rows(lake, agreeing(lake)[0])) == alone(lake)
            assert lake.current(GATHERED) == before, f"{name} is held"
    with open(settings.home / "lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with working(settings.home):  # for the process that holds it
            index_rows(lake, agreeing(lake)[0])
    assert lake.current(GATHERED) != before


def test_columns_and_schema_are_those_of_the_index(settings: Settings) -> None:
    lake = read_all(settings)
    runs = agreeing(lake)[0]
    first = index_rows(lake, runs)
    again = index_rows(lake, runs)
    assert first.schema == again.schema == gathered.SCHEMA
    assert ordered(first) == ordered(again)
    assert index_rows(lake, runs, ["task_id", "trace_id"]).column_names == ["task_id", "trace_id"]
    some = index_rows(lake, runs[2:5])
    assert {row["run_id"] for row in ordered(some)} == {run.run_id for run in runs[2:5]}


def test_rows_of_other_columns_are_no_use(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = read_all(settings)
    load_index(lake)
    monkeypatch.setattr(gathered, "_shape", lambda: "another version")
    assert opened(lake, monkeypatch) == RUNS


def test_what_is_erased_is_gathered_nowhere(settings: Settings) -> None:
    lake = read_all(settings)
    load_index(lake)
    assert b"r5-a1" in b"".join(p.read_bytes() for p in (lake.root / INDEX).rglob("*.parquet"))
    seen = watch(settings, lake)
    purge(lake, settings, seen.inputs, find_trace(lake, "r5-a1", None), "asked for")
    index = load_index(lake)
    assert "r5-a1" not in set(index.frame["trace_id"])
    folder = lake.root / GATHERED
    rows = [gathered.pq.read_table(path) for path in folder.rglob("rows.parquet")]
    assert rows
    assert all("r5-a1" not in table["trace_id"].to_pylist() for table in rows)
    assert sum(gathered.pq.read_table(path).num_rows for path in folder.rglob("long-*.parquet")) == 2 * (RUNS - 1), (
        "the other attempt said the same"
    )
