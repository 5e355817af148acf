"""The gathered index holds what the partitions hold, through every change, and saves opening them."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from trace_flywheel.flow import gathered
from trace_flywheel.flow.erasable import find_trace
from trace_flywheel.flow.frame import agreeing, load_index
from trace_flywheel.flow.gathered import index_rows
from trace_flywheel.flow.ingest import ingest
from trace_flywheel.flow.ingest_tasks import INDEX
from trace_flywheel.flow.purge import purge
from trace_flywheel.flow.watch import watch
from trace_flywheel.lake.index import GATHERED
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


def write_run(folder: Path, name: str, answer: str) -> None:
    path = folder / "jobs" / "runs" / name / "results.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    messages = [{"role": "user", "content": f"Add {name} to the table."}, {"role": "assistant", "content": answer}]
    row = {"task_id": "add", "messages": messages, "verdict": "pass", "reward": 1.0, "grader": "g"}
    path.write_text(json.dumps([{**row, "trace_id": f"{name}-a{attempt}"} for attempt in range(2)]))


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
    return ordered(pa.concat_tables(gathered._read(lake, agreeing(lake)[0], gathered.SCHEMA)))


def opened(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> int:
    """Partitions that a load of the index opens."""
    seen: list[str] = []
    before = gathered._read
    monkeypatch.setattr(
        gathered,
        "_read",
        lambda lake, runs, schema: (seen.extend(r.run_id for r in runs), before(lake, runs, schema))[1],
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
    assert all("r5-a1" not in table["trace_id"].to_pylist() for table in rows)
