"""The sensors on folders that are new, changed, unfinished, deleted, missing or many."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from trace_flywheel.flow.ingest import ingest
from trace_flywheel.flow.watch import watch
from trace_flywheel.lake.store import Lake
from trace_flywheel.orchestration.jobs import STAGE
from trace_flywheel.orchestration.sensors import ATTEMPTS, RANGE_END, RANGE_START, ingest_tick, refresh_tick, stretches
from trace_flywheel.settings import Settings, load_settings

LATER = 3600.0
"""Seconds after now at which every folder is quiet."""


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
    instance.create_run_for_job(
        dg.job(name="busy")(lambda: None), status=dg.DagsterRunStatus.STARTED, tags={STAGE: "ingest"}
    )
    assert isinstance(tick(), dg.SkipReason)


def test_a_lost_run_is_asked_for_again_and_given_up_in_the_end(tick, settings: Settings) -> None:
    write_run(settings, "a")
    attempts = [tick().run_requests[0].run_key.rsplit("#")[-1] for _ in range(ATTEMPTS)]
    assert attempts == ["1", "2", "3"]
    assert isinstance(tick(), dg.SkipReason)
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


def test_no_refresh_while_ingest_runs(instance: dg.DagsterInstance, settings: Settings) -> None:
    write_run(settings, "a")
    read_all(settings)
    instance.create_run_for_job(
        dg.job(name="busy")(lambda: None), status=dg.DagsterRunStatus.STARTED, tags={STAGE: "ingest"}
    )
    assert isinstance(ask_refresh(instance, settings)[0], dg.SkipReason)
