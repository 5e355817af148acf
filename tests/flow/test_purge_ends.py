"""Erasure over time: what only older versions hold goes too, and an erasure that was killed is ended by the next."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.flow.conftest import Flow, group, sentence, trace, write_runs
from tests.flow.test_purge import left, purge
from trace_flywheel.cli.main import main
from trace_flywheel.flow import purge as purging
from trace_flywheel.lake import dataset
from trace_flywheel.lake.dataset import find_version, provenance

MakeFlow = Callable[..., Flow]


class Killed(BaseException):
    """What nothing catches."""


@pytest.fixture
def one(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> Flow:
    made = flow({"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1), "r2": [trace("a-0", "b", 1.0, 50)]})
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(made.root)]))
    made.run()
    return made


def write(one: Flow, rows: list[dict[str, Any]]) -> None:
    (one.root / "runs" / "r1" / "results.json").write_text(json.dumps(rows))
    one.run()


def test_what_a_rollout_said_once_goes_from_older_versions_and_what_it_says_now_stays(one: Flow) -> None:
    rows = group("a", (1.0, 0.9, 0.2, 0.0), 1)
    rows[0]["messages"][1]["content"] = sentence(77)
    write(one, rows)
    assert {path.split("/")[0] for path in left(one, sentence(1))} == {"datasets"}
    value = one.root.parent / "value.txt"
    value.write_text(sentence(1) + "\n")
    assert purge(one, "--value-from", str(value), "--dry-run") == 0
    assert left(one, sentence(1))
    assert purge(one, "--value-from", str(value)) == 0
    assert left(one, sentence(1)) == []
    assert left(one, sentence(77))
    rows = dataset.fates(dataset.find_version(one.settings.home, "rl_dataset")).to_pylist()
    assert sorted(row["trace_id"] for row in rows) == ["a-0", "a-0", "a-1", "a-2", "a-3"]


def test_a_trace_that_only_older_versions_know_is_erased(one: Flow) -> None:
    write(one, group("a", (1.0, 0.9, 0.2, 0.0), 1)[1:])
    assert left(one, sentence(1))
    assert purge(one, "--trace", "a-0", "--run", "r1") == 0
    assert left(one, sentence(1)) == []
    assert left(one, sentence(50))
    write(one, group("a", (1.0, 0.9, 0.2, 0.0), 1))
    assert left(one, sentence(1)) == []


@pytest.mark.parametrize("step", ["graded_traces", "redacted_rollouts", "versions"])
def test_an_erasure_that_was_killed_is_ended_by_the_next(one: Flow, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    rewrite, rmtree = purging.rewrite, shutil.rmtree

    def rewritten(*given: Any) -> None:
        rewrite(*given)
        if given[3].asset == step:
            raise Killed

    def removed(path: Path, *given: Any, **named: Any) -> None:
        if step == "versions" and "datasets" in Path(path).parts:
            raise Killed
        rmtree(path, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(purging, "rewrite", rewritten)
        patch.setattr(dataset.shutil, "rmtree", removed)
        with pytest.raises(Killed):
            purge(one, "--trace", "a-1")
    for name in dataset.names(one.settings.home):
        assert dataset.find_version(one.settings.home, name).path.is_dir()
    assert purge(one, "--trace", "a-1") == 0
    assert left(one, sentence(2)) == []
    assert left(one, "a-1") == []
    assert one.run()["rl_dataset"].ledger.entered == 5
    assert one.pending().todo == ()
    assert left(one, sentence(2)) == []


def test_what_killed_writers_left_goes_with_an_erasure(one: Flow) -> None:
    places = (one.lake.folder("graded_traces", "data/runs/r1"), one.settings.home / "datasets" / "sft_dataset")
    for place in places:
        (place / ".tmp-killed").mkdir()
        (place / ".tmp-killed" / "data.jsonl").write_text(sentence(2))
    assert purge(one, "--trace", "a-1") == 0
    assert left(one, sentence(2)) == []


def test_a_killed_publication_is_swept_by_a_later_one(one: Flow) -> None:
    place = one.settings.home / "datasets" / "rl_dataset"
    for name, at in ((".tmp-old", 0), (".tmp-young", None)):
        (place / name).mkdir()
        os.utime(place / name, None if at is None else (at, at))
    write(one, group("a", (1.0, 0.9, 0.2), 1))
    assert [path.name for path in place.glob(".tmp-*")] == [".tmp-young"]


def test_an_erasure_waits_for_who_writes_to_the_home(one: Flow) -> None:
    handle = os.open(one.settings.home / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    codes: list[int] = []
    waiting = Thread(target=lambda: codes.append(purge(one, "--trace", "a-1")))
    waiting.start()
    waiting.join(3)
    assert waiting.is_alive()
    assert not (one.lake.root / "purged.jsonl").exists()
    os.close(handle)
    waiting.join(120)
    assert codes == [0]
    assert left(one, sentence(2)) == []


def test_an_erasure_before_the_refresh_that_news_ask_for_shows_and_loses_nothing_else(one: Flow, capsys: Any) -> None:
    """New goldens make every index out of date; the runs are published all the same."""
    write_runs(one.root, {}, [{"task_id": "b"}])
    there = {p.trace_ids[0] for p in provenance(find_version(one.settings.home, "rl_dataset")) if p.task_id == "a"}
    capsys.readouterr()
    assert main(["purge", "--trace", "a-1", "--reason", "x", "--home", str(one.settings.home)]) == 0
    now = {p.trace_ids[0] for p in provenance(find_version(one.settings.home, "rl_dataset"))}
    assert now == there - {"a-1"}
    assert one.pending().todo != ()
    made = one.run()["rl_dataset"]
    assert {p.trace_ids[0] for p in provenance(find_version(one.settings.home, "rl_dataset"))} == now
    assert made.ledger.dropped["read"] == {"purged": 1}


def test_a_golden_that_cannot_be_read_stops_an_erasure_before_anything_is_gone(one: Flow, capsys: Any) -> None:
    before = {p: p.read_bytes() for p in one.settings.home.rglob("*") if p.is_file() and p.name != "goldens.json"}
    write_runs(one.root, {}, [])
    (one.root / "eval" / "goldens.jsonl").write_text("{broken\n")
    assert main(["purge", "--trace", "a-1", "--reason", "x", "--home", str(one.settings.home)]) == 1
    assert "goldens.jsonl:1" in capsys.readouterr().err
    assert before == {p: p.read_bytes() for p in before}
    assert not (one.lake.root / "purging").exists()
