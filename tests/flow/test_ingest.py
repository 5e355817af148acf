"""Runs into the lake: each by itself, once, whatever the number of processes and whatever breaks."""

import builtins
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.flow.conftest import Flow, group, trace
from trace_flywheel.flow import ingest_tasks
from trace_flywheel.flow.watch import watch
from trace_flywheel.lake.parts import read_rollouts
from trace_flywheel.lake.quarantine import quarantines
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.fate import Stage
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.sources import discover, eval_run, own_output

MakeFlow = Callable[..., Flow]
ASSETS = ("graded_traces", "redacted_rollouts", "rollout_index")


def rollouts(lake: Lake, asset: str, run_id: str) -> list[Rollout]:
    sidecar = lake.sidecar(asset, run_id)
    assert sidecar
    return [r for part in sidecar.parts for _, r in read_rollouts(lake.part_path(sidecar, part))]


def lake_bytes(home: Path) -> dict[str, bytes]:
    lake = home / "lake"
    return {p.relative_to(lake).as_posix(): p.read_bytes() for p in sorted(lake.rglob("*")) if p.is_file()}


def test_a_folder_becomes_three_partitions(flow: MakeFlow) -> None:
    one = flow({"r1": group("t", (1.0, 0.0), 1)})
    (result,) = one.ingest()
    assert (result.run_id, result.status) == ("data/runs/r1", "made")
    assert [r.trace_id for r in rollouts(one.lake, "redacted_rollouts", "data/runs/r1")] == ["t-0", "t-1"]
    for asset in ASSETS:
        sidecar = one.lake.sidecar(asset, "data/runs/r1")
        assert sidecar
        assert (sidecar.counts.entered, sidecar.counts.kept) == (2, 2)


def test_a_second_pass_does_nothing_and_a_changed_folder_redoes_only_itself(flow: MakeFlow) -> None:
    one = flow({"r1": group("a", (1.0,), 1), "r2": group("b", (1.0,), 2)})
    one.ingest()
    assert one.pending().todo == ()
    before = lake_bytes(one.settings.home)
    assert one.ingest() == ()
    assert lake_bytes(one.settings.home) == before
    (one.root / "runs/r2/results.json").write_text(json.dumps(group("b", (1.0, 0.0), 2)))
    assert [r.run_id for r in one.pending().todo] == ["data/runs/r2"]
    assert [(r.run_id, r.status) for r in one.ingest()] == [("data/runs/r2", "made")]
    changed = {name for name, data in lake_bytes(one.settings.home).items() if before.get(name) != data}
    assert all("r2" in name for name in changed)


def test_an_unchanged_run_costs_a_look_at_its_files_and_its_three_sidecars(
    flow: MakeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the lake but the sidecars is opened, and of the source only what tells its format."""
    one = flow({f"r{n}": [trace("t", "task", 1.0, n, note="x" * 100_000)] for n in range(5)})
    one.ingest()
    opened: list[str] = []
    read: list[int] = []
    real, real_peek = builtins.open, eval_run.peek

    def noted(path: Any, *given: Any, **named: Any) -> Any:
        opened.append(Path(path).name)
        return real(path, *given, **named)

    def peeked(path: Path, root: Path, size: int) -> bytes:
        head = real_peek(path, root, size)
        read.append(len(head))
        return head

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("a part was opened, or a folder was read")

    monkeypatch.setattr(builtins, "open", noted)
    for module in (eval_run, own_output):
        monkeypatch.setattr(module, "peek", peeked)
    monkeypatch.setattr(pq, "ParquetFile", never)
    monkeypatch.setattr(pq, "read_table", never)
    monkeypatch.setattr(discover, "read_unit", never)
    seen = watch(one.settings, one.lake)
    assert [run.run_id for run in seen.unchanged] == [f"data/runs/r{n}" for n in range(5)]
    assert opened.count("sidecar.json") == 5 * 3
    assert set(opened) <= {"sidecar.json", "results.json", "format"}
    assert max(read) <= 1 << 14


def test_workers_do_not_change_a_byte(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_flywheel.flow.workers.PATIENCE", 0.0)
    runs = {f"r{i}": group(f"t{i}", (1.0, 0.5, 0.0), 10 * i) for i in range(3)}
    one, two = flow(runs, name="one", workers=1), flow(runs, name="two", workers=2)
    one.ingest()
    two.ingest()
    assert lake_bytes(one.settings.home) == lake_bytes(two.settings.home)


def test_a_secret_is_gone_after_redaction_and_counted(flow: MakeFlow) -> None:
    token = "ghp_" + "a1B2" * 9
    row = trace("t", "task", 1.0, 1)
    row["messages"][0]["content"] = f"use {token} please"
    one = flow({"r1": [row]})
    (result,) = one.ingest()
    assert result.sidecar
    assert sum(result.sidecar.facts["findings"].values()) == 1
    assert token in str(rollouts(one.lake, "graded_traces", "data/runs/r1")[0].messages)
    assert token not in str(rollouts(one.lake, "redacted_rollouts", "data/runs/r1")[0].messages)


def test_a_folder_that_gives_nothing_is_quarantined_and_the_others_go_on(flow: MakeFlow) -> None:
    one = flow({"good": group("a", (1.0,), 1), "bad": []})
    (one.root / "runs/bad/results.json").write_text('[{"trace_id": "t", "messages": "none"}]')
    results = {r.run_id: r.status for r in one.ingest()}
    assert results == {"data/runs/bad": "quarantined", "data/runs/good": "made"}
    (entry,) = quarantines(one.lake)
    assert entry.run_id == "data/runs/bad"
    assert "results.json" in entry.reason
    (one.root / "runs/bad/results.json").write_text(json.dumps(group("b", (1.0,), 2)))
    one.ingest()
    assert quarantines(one.lake) == ()


def test_a_folder_that_keeps_failing_is_left_alone_until_it_changes(
    flow: MakeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise PermissionError(13, "no", "results.json")

    one = flow({"r1": group("a", (1.0,), 1)}, ingest={"quarantine_after": 2})
    with monkeypatch.context() as patch:
        patch.setattr(discover, "units", broken)
        for _ in range(2):
            assert [r.status for r in one.ingest()] == ["quarantined"]
        assert one.pending().given_up[0].run_id == "data/runs/r1"
        assert one.ingest() == ()
    os.utime(one.root / "runs/r1/results.json", (1, 1))
    assert [r.status for r in one.ingest()] == ["made"]


def test_a_chunk_whose_reader_fails_costs_the_unit_at_fault(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    one = flow({"r1": group("a", (1.0,), 1)})

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a fault nobody foresaw, with secret text")

    monkeypatch.setattr(ingest_tasks.RolloutParts, "add", broken)
    monkeypatch.setattr("trace_flywheel.flow.ingest_ends.run_alone", lambda f, s, t: ingest_tasks.Outcome(()))
    (result,) = one.ingest()
    assert result.sidecar
    assert result.sidecar.counts.entered == 0


def test_corrections_of_a_file_are_joined_and_a_change_redoes_the_run(flow: MakeFlow, tmp_path: Path) -> None:
    file = tmp_path / "corrections.jsonl"
    file.write_text(json.dumps({"trace_id": "a-0", "content": "better", "corrected_by": "me"}) + "\n")
    one = flow({"r1": group("a", (0.0,), 1)}, corrections=[file])
    one.ingest()
    (rollout,) = rollouts(one.lake, "redacted_rollouts", "data/runs/r1")
    assert rollout.correction
    assert rollout.correction.content == "better"
    file.write_text(json.dumps({"trace_id": "a-0", "run_id": "r1", "content": "best"}) + "\n")
    assert len(one.pending().todo) == 1
    one.ingest()
    assert rollouts(one.lake, "redacted_rollouts", "data/runs/r1")[0].correction.content == "best"  # type: ignore[union-attr]


def test_new_goldens_redo_the_index_alone(flow: MakeFlow) -> None:
    one = flow({"r1": group("a", (1.0,), 1)})
    one.ingest()
    text = one.lake.sidecar("redacted_rollouts", "data/runs/r1")
    index = one.lake.sidecar("rollout_index", "data/runs/r1")
    (one.root / "eval").mkdir()
    (one.root / "eval/goldens.jsonl").write_text('{"task_id": "a"}\n')
    (result,) = one.ingest()
    assert result.status == "made"
    assert one.lake.sidecar("redacted_rollouts", "data/runs/r1") == text
    assert one.lake.sidecar("rollout_index", "data/runs/r1") != index


def test_without_raw_text_the_folder_is_read_again(flow: MakeFlow) -> None:
    runs = {"r1": group("a", (1.0, 0.0), 1)}
    kept, lean = flow(runs, name="kept"), flow(runs, name="lean", lake={"keep_raw": False})
    kept.ingest()
    lean.ingest()
    assert [r.messages for r in rollouts(lean.lake, "graded_traces", "data/runs/r1")] == [(), ()]
    texts = [rollouts(f.lake, "redacted_rollouts", "data/runs/r1") for f in (kept, lean)]
    assert texts[0] == texts[1]


def test_a_folder_that_changed_since_is_told_when_no_raw_text_is_kept(
    flow: MakeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trace_flywheel.flow.ingest import graded_traces, redacted_rollouts

    one = flow({"r1": group("a", (1.0,), 1)}, lake={"keep_raw": False})
    runs = discover.discover(one.settings.roots).runs
    inputs = one.curation().inputs
    assert [r.status for r in graded_traces(runs, one.lake, one.settings, inputs)] == ["made"]
    os.utime(one.root / "runs/r1/results.json", (1, 1))
    (result,) = redacted_rollouts(runs, one.lake, one.settings, inputs)
    assert (result.status, "source_changed" in result.reason) == ("quarantined", True)


def test_what_was_known_of_a_folder_before_does_not_hide_that_it_changed_since(flow: MakeFlow) -> None:
    from trace_flywheel.flow.ingest import graded_traces, redacted_rollouts

    one = flow({"r1": group("a", (1.0,), 1), "r2": group("b", (1.0,), 2)}, lake={"keep_raw": False})
    seen = watch(one.settings, one.lake)
    shared = one.lake, one.settings, seen.inputs, None, seen.fingerprints
    assert [r.status for r in graded_traces(seen.todo, *shared)] == ["made", "made"]
    os.utime(one.root / "runs/r1/results.json", (1, 1))
    first, second = redacted_rollouts(seen.todo, *shared)
    assert (first.status, "source_changed" in first.reason) == ("quarantined", True), "it is read again"
    assert second.status == "made"


def test_a_folder_that_changes_after_it_was_looked_at_is_to_do_again(flow: MakeFlow) -> None:
    from trace_flywheel.flow.ingest import graded_traces

    one = flow({"r1": group("a", (1.0,), 1)})
    seen = watch(one.settings, one.lake)
    (one.root / "runs/r1/results.json").write_text(json.dumps(group("a", (1.0, 0.0), 1)))
    (result,) = graded_traces(seen.todo, one.lake, one.settings, seen.inputs, None, seen.fingerprints)
    assert result.sidecar is not None
    assert result.sidecar.source_fingerprint == seen.fingerprints["data/runs/r1"]
    assert result.sidecar.counts.kept == 2
    assert [run.run_id for run in watch(one.settings, one.lake).todo] == ["data/runs/r1"]


def test_drops_are_carried_to_the_index(flow: MakeFlow) -> None:
    one = flow({"r1": []})
    (one.root / "runs/r1/results.json").write_text(json.dumps(group("a", (1.0,), 1)[0]) + '\n{"torn": \n')
    one.ingest()
    sidecar = one.lake.sidecar("rollout_index", "data/runs/r1")
    assert sidecar
    (drop,) = one.lake.drops(sidecar)
    assert drop.stage is Stage.READ
    assert sidecar.counts.entered == 2
