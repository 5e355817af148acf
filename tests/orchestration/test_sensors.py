"""The sensors on folders that are new, changed, unfinished, deleted, missing or many."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData

from trace_flywheel.flow.ingest import ingest
from trace_flywheel.flow.watch import watch
from trace_flywheel.lake.quarantine import quarantines
from trace_flywheel.lake.store import Lake
from trace_flywheel.orchestration.jobs import STAGE
from trace_flywheel.orchestration.sensors import ATTEMPTS, RANGE_END, RANGE_START, ingest_tick, refresh_tick, stretches
from trace_flywheel.settings import Settings, load_settings

LATER = 3600.0
"""Seconds after now at which every folder is quiet."""


def start_run(instance: dg.DagsterInstance, pid: int) -> None:
    """A started ingest run in the hands of this process."""
    run = instance.create_run_for_job(
        dg.job(name="busy")(lambda: None), status=dg.DagsterRunStatus.STARTED, tags={STAGE: "ingest"}
    )
    instance.report_engine_event("Executing steps in process", run, EngineEventData.in_process(pid))


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


@pytest.fixture
def instance() -> dg.DagsterInstance:
    return dg.DagsterInstance.ephemeral()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "evals").mkdir()
    return load_settings(home=tmp_path / "home", roots=(tmp_path / "evals",), ingest={"workers": 1})


def write_run(settings: Settings, name: str, answer: str = "Four.") -> Path:
    path = settings.roots[0] / "runs" / name / "results.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    messages = [
        {"role": "user", "content": f"What is two and two in {name}?"},
        {"role": "assistant", "content": answer},
    ]
    row = {
        "task_id": "sum",
        "trace_id": f"{name}-a0",
        "messages": messages,
        "verdict": "pass",
        "reward": 1.0,
        "grader": "g",
    }
    path.write_text(json.dumps([row]))
    return path


def read_all(settings: Settings) -> None:
    lake = Lake(settings.home)
    seen = watch(settings, lake)
    ingest(seen.todo, lake, settings, seen.inputs, workers=1)


@pytest.fixture
def tick(instance: dg.DagsterInstance, settings: Settings) -> Callable[..., dg.SensorResult | dg.SkipReason]:
    """One evaluation, with the cursor carried on and requested partitions registered, as the daemon does."""
    state: dict[str, str | None] = {"cursor": None}

    def evaluate(later: float = LATER) -> dg.SensorResult | dg.SkipReason:
        context = dg.build_sensor_context(instance=instance, cursor=state["cursor"])
        result = ingest_tick(context, settings, time.time() + later)
        state["cursor"] = result.cursor if isinstance(result, dg.SensorResult) else context.cursor
        if isinstance(result, dg.SensorResult):
            for request in result.dynamic_partitions_requests or []:
                instance.add_dynamic_partitions("runs", request.partition_keys)
        return result

    return evaluate


def keys(result: dg.SensorResult | dg.SkipReason) -> list[str | None]:
    assert isinstance(result, dg.SensorResult), result
    return [request.partition_key for request in result.run_requests or []]


def test_new_folders_become_partitions_and_runs(tick, settings: Settings, instance: dg.DagsterInstance) -> None:
    write_run(settings, "b")
    write_run(settings, "a")
    result = tick()
    assert keys(result) == ["evals/runs/a", "evals/runs/b"]
    assert list(instance.get_dynamic_partitions("runs")) == ["evals/runs/a", "evals/runs/b"]
    assert [event.partition for event in result.asset_events] == ["evals/runs/a", "evals/runs/b"]
    first = result.run_requests[0].run_key
    assert first.startswith("evals/runs/a@")
    assert first.endswith("#1")


def test_what_is_in_flight_is_not_asked_for_twice(tick, settings: Settings, instance: dg.DagsterInstance) -> None:
    write_run(settings, "a")
    tick()
    start_run(instance, os.getpid())
    assert isinstance(tick(), dg.SkipReason)


def test_a_lost_run_is_asked_for_again_and_given_up_in_the_end(tick, settings: Settings) -> None:
    write_run(settings, "a")
    attempts = [tick().run_requests[0].run_key.rsplit("#")[-1] for _ in range(ATTEMPTS)]
    assert attempts == ["1", "2", "3"]
    given_up = tick()
    assert "1 lost 3 times (evals/runs/a): `flywheel refresh` reads them" in str(given_up.skip_message)
    tick()
    (named,) = quarantines(Lake(settings.home))
    assert (named.run_id, named.attempts) == ("evals/runs/a", 1), "the check and doctor name it; a refresh may read it"
    read_all(settings)
    assert quarantines(Lake(settings.home)) == ()
    write_run(settings, "a", "A changed folder gets new tries.")
    assert keys(tick()) == ["evals/runs/a"]


def test_an_ingested_folder_is_left_alone_until_it_changes(tick, settings: Settings) -> None:
    write_run(settings, "a")
    write_run(settings, "b")
    tick()
    read_all(settings)
    skipped = tick()
    assert isinstance(skipped, dg.SkipReason)
    assert "2 unchanged" in str(skipped.skip_message)
    write_run(settings, "b", "Five, on second thoughts.")
    assert keys(tick()) == ["evals/runs/b"]


def test_a_folder_that_is_still_being_written_waits(tick, settings: Settings) -> None:
    write_run(settings, "a")
    waiting = tick(later=1.0)
    assert isinstance(waiting, dg.SkipReason)
    assert "1 still being written" in str(waiting.skip_message)
    assert keys(tick()) == ["evals/runs/a"]


@pytest.mark.parametrize("modified", [4_000_000_000, 0])
def test_a_folder_whose_times_were_set_waits_for_its_last_touch(tick, settings: Settings, modified: float) -> None:
    file = write_run(settings, "a")
    for path in (file, file.parent):
        os.utime(path, (modified, modified))
    if modified:
        assert "1 still being written" in tick(later=0).skip_message
    assert keys(tick()) == ["evals/runs/a"]


def test_a_clock_that_was_set_back_holds_no_folder_back(tick, settings: Settings) -> None:
    write_run(settings, "a")
    assert "1 still being written" in tick(later=-2).skip_message
    assert keys(tick(later=-LATER)) == ["evals/runs/a"]


def test_an_old_modification_time_is_no_reason_to_miss_a_folder(tick, settings: Settings) -> None:
    read_all(settings)
    path = write_run(settings, "copied")
    for changed in (path, path.parent):
        os.utime(changed, (1_000_000_000, 1_000_000_000))
    assert keys(tick()) == ["evals/runs/copied"]


def test_a_deleted_folder_is_named_and_its_data_stay(tick, settings: Settings) -> None:
    path = write_run(settings, "a")
    read_all(settings)
    path.unlink()
    path.parent.rmdir()
    skipped = tick()
    assert "folder is away (evals/runs/a)" in str(skipped.skip_message)
    assert Lake(settings.home).sidecar("rollout_index", "evals/runs/a") is not None


def test_a_lost_run_holds_nothing_back(tick, settings: Settings, instance: dg.DagsterInstance) -> None:
    write_run(settings, "a")
    tick()
    start_run(instance, dead_pid())
    assert keys(tick()) == ["evals/runs/a"]
    assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.FAILURE]


def test_a_refresh_does_not_wait_for_a_lost_run(instance: dg.DagsterInstance, settings: Settings) -> None:
    write_run(settings, "a")
    read_all(settings)
    start_run(instance, dead_pid())
    assert isinstance(ask_refresh(instance, settings)[0], dg.RunRequest)


def goldens_of(settings: Settings, path: Path, text: str) -> Settings:
    path.write_text(json.dumps({"task_id": "g", "prompt": text, "answer": "x"}) + "\n")
    return settings.model_copy(update={"goldens": settings.goldens.model_copy(update={"paths": (path,)})})


def test_states_that_come_back_are_asked_for_each_time(
    instance: dg.DagsterInstance, settings: Settings, tmp_path: Path
) -> None:
    """Goldens B, C, B, C over one folder: Dagster passes over a run key that it has seen."""
    write_run(settings, "a")
    cursor, asked = None, []
    for turn in range(10):
        now_is = goldens_of(settings, tmp_path / "g.jsonl", f"Golden number {turn % 2} of the set")
        context = dg.build_sensor_context(instance=instance, cursor=cursor)
        result = ingest_tick(context, now_is, time.time() + LATER)
        assert keys(result) == ["evals/runs/a"], turn
        cursor = result.cursor
        asked += [request.run_key for request in result.run_requests]
        read_all(now_is)
    assert len(set(asked)) == 10
    assert all(key.endswith("#1") for key in asked)


def test_a_state_of_the_lake_that_comes_back_is_published_each_time(
    instance: dg.DagsterInstance, settings: Settings
) -> None:
    write_run(settings, "a")
    read_all(settings)
    cursor, asked = None, []
    for turn in range(10):
        now_is = settings.model_copy(update={"seed": turn % 2})
        request, cursor = ask_refresh(instance, now_is, cursor)
        assert isinstance(request, dg.RunRequest), turn
        asked.append(request.run_key)
    assert len(set(asked)) == 10


def test_one_missing_root_does_not_stop_the_others(
    instance: dg.DagsterInstance, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "more" / "eval").mkdir(parents=True)
    (tmp_path / "more" / "eval" / "goldens.jsonl").write_text(
        json.dumps({"task_id": "g", "prompt": "Of the other root", "answer": "x"}) + "\n"
    )
    both = settings.model_copy(update={"roots": (*settings.roots, tmp_path / "more")})
    write_run(settings.model_copy(update={"roots": (tmp_path / "more",)}), "theirs")
    write_run(both, "old")
    read_all(both)
    (tmp_path / "more").rename(tmp_path / "away")
    write_run(both, "new")
    context = dg.build_sensor_context(instance=instance)
    result = ingest_tick(context, both, time.time() + LATER)
    assert keys(result) == ["evals/runs/new"], "what is not changed is not read again for goldens that are away"
    ingest(
        watch(both, Lake(both.home), strict=False).todo, Lake(both.home), both, watch(settings, Lake(both.home)).inputs
    )
    skipped = ingest_tick(dg.build_sensor_context(instance=instance), both, time.time() + LATER)
    assert f"missing roots: {tmp_path / 'more'}" in str(skipped.skip_message)
    refused, _ = ask_refresh(instance, both)
    assert isinstance(refused, dg.SkipReason), "nothing is published without the goldens of a root"
    assert str(tmp_path / "more") in str(refused.skip_message)


def test_a_missing_root_is_a_reason_to_skip_not_an_error(instance: dg.DagsterInstance, settings: Settings) -> None:
    settings.roots[0].rmdir()
    skipped = ingest_tick(dg.build_sensor_context(instance=instance), settings, time.time())
    assert isinstance(skipped, dg.SkipReason)
    assert str(settings.roots[0]) in str(skipped.skip_message)


def test_no_roots_at_all_says_how_to_set_them(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    skipped = ingest_tick(dg.build_sensor_context(instance=instance), load_settings(home=tmp_path), time.time())
    assert "--root" in str(skipped.skip_message)


def test_a_first_import_is_one_range_run(tick, settings: Settings) -> None:
    for number in range(60):
        write_run(settings, f"r{number:02}")
    result = tick()
    assert keys(result) == [None]
    (request,) = result.run_requests
    assert request.tags[RANGE_START] == "evals/runs/r00"
    assert request.tags[RANGE_END] == "evals/runs/r59"
    assert result.asset_events == []


@pytest.mark.parametrize(
    ("wanted", "made"),
    [("abc", ["abc"]), ("ac", ["a", "c"]), ("abd", ["ab", "d"]), ("", []), ("e", ["e"])],
)
def test_ranges_are_contiguous_stretches_of_the_order_of_registration(wanted: str, made: list[str]) -> None:
    assert ["".join(s) for s in stretches("abcde", set(wanted))] == made


def ask_refresh(instance: dg.DagsterInstance, settings: Settings, cursor: str | None = None, later: float = LATER):
    context = dg.build_sensor_context(instance=instance, cursor=cursor)
    return refresh_tick(context, settings, time.time() + later), context.cursor


def test_no_refresh_before_anything_is_ingested(instance: dg.DagsterInstance, settings: Settings) -> None:
    assert isinstance(ask_refresh(instance, settings)[0], dg.SkipReason)


def test_one_refresh_once_the_lake_has_come_to_rest(instance: dg.DagsterInstance, settings: Settings) -> None:
    write_run(settings, "a")
    read_all(settings)
    moving, _ = ask_refresh(instance, settings, later=0.0)
    assert isinstance(moving, dg.SkipReason)
    asked, cursor = ask_refresh(instance, settings)
    assert isinstance(asked, dg.RunRequest)
    assert asked.run_key.endswith("#1")
    again, _ = ask_refresh(instance, settings, cursor)
    assert again.run_key.endswith("#2"), "a failed refresh is asked for again"
    given_up, _ = ask_refresh(instance, settings, json.dumps([json.loads(cursor)[0], ATTEMPTS]))
    assert isinstance(given_up, dg.SkipReason)


def test_a_clock_that_was_set_back_holds_no_refresh_back(instance: dg.DagsterInstance, settings: Settings) -> None:
    write_run(settings, "a")
    read_all(settings)
    assert isinstance(ask_refresh(instance, settings, later=-2)[0], dg.SkipReason)
    assert isinstance(ask_refresh(instance, settings, later=-LATER)[0], dg.RunRequest)


def test_no_refresh_while_ingest_runs(instance: dg.DagsterInstance, settings: Settings) -> None:
    write_run(settings, "a")
    read_all(settings)
    start_run(instance, os.getpid())
    assert isinstance(ask_refresh(instance, settings)[0], dg.SkipReason)
