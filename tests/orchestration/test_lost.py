"""Runs whose process is gone do not run for ever."""

import os
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData

from trace_flywheel.orchestration.jobs import STAGE
from trace_flywheel.orchestration.lost import SILENT_SECONDS, end_lost_runs

STARTED, STARTING, CANCELING = (
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.CANCELING,
)


@pytest.fixture
def instance() -> dg.DagsterInstance:
    return dg.DagsterInstance.ephemeral()


def run_of(
    instance: dg.DagsterInstance, pid: int | None, status: dg.DagsterRunStatus = STARTED, stage: str = "ingest"
) -> str:
    """A run in this state, whose events name this process."""
    run = instance.create_run_for_job(dg.job(name="made")(lambda: None), status=status, tags={STAGE: stage})
    if pid is not None:
        instance.report_engine_event("Executing steps in process", run, EngineEventData.in_process(pid))
    return run.run_id


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def status_of(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


@pytest.mark.parametrize("status", [STARTED, STARTING])
def test_a_run_whose_process_is_gone_is_marked_failed(instance: dg.DagsterInstance, status) -> None:
    run_id = run_of(instance, dead_pid(), status)
    assert end_lost_runs(instance) == (run_id,)
    assert status_of(instance, run_id) == dg.DagsterRunStatus.FAILURE
    assert end_lost_runs(instance) == ()


def test_a_run_that_was_being_cancelled_is_marked_cancelled(instance: dg.DagsterInstance) -> None:
    run_id = run_of(instance, dead_pid(), CANCELING)
    end_lost_runs(instance)
    assert status_of(instance, run_id) == dg.DagsterRunStatus.CANCELED


def test_a_run_whose_process_lives_goes_on_however_long_it_is_silent(instance: dg.DagsterInstance) -> None:
    run_id = run_of(instance, os.getpid())
    assert end_lost_runs(instance, time.time() + 1e6) == ()
    assert status_of(instance, run_id) == STARTED


def test_without_a_known_process_silence_decides(instance: dg.DagsterInstance) -> None:
    run_id = run_of(instance, None)
    assert end_lost_runs(instance, time.time() + SILENT_SECONDS / 2) == ()
    assert end_lost_runs(instance, time.time() + SILENT_SECONDS + 5) == (run_id,)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the start of a process is read from /proc")
def test_another_process_with_the_same_number_is_another_process(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = run_of(instance, os.getpid())
    with monkeypatch.context() as patch:
        patch.setattr("trace_flywheel.orchestration.lost._workers", lambda *_: [(os.getpid(), 1_000_000_000.0)])
        assert end_lost_runs(instance) == (run_id,), "this process began after the event that names its number"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="zombies are told apart by /proc")
def test_a_killed_process_that_nobody_reaped_is_gone(instance: dg.DagsterInstance) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    run_id = run_of(instance, child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert end_lost_runs(instance) == (run_id,)
    child.communicate()
