"""Runs that say they run and do not: their process was killed before it could record an end.

Dagster's monitoring ends runs that never start or never stop. Its default launcher cannot look at a worker, so that a
started run whose process is gone would run for ever, hold back the sensors and fill the queue. The worker's process id
is in the run's events; a launcher that can look at its workers is left to Dagster's monitoring.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import dagster as dg

SILENT_SECONDS = 300.0
"""Age of the last sign of a run of which no process is known, from which on it counts as lost."""
CLOCK_SLACK = 2.0
"""Seconds by which the start of a process, told in clock ticks since boot, may seem to lie after its first event."""
HELD = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
"""States of a run in somebody's hands; queued ones are the daemon's."""


def end_lost_runs(instance: dg.DagsterInstance, now: float | None = None) -> tuple[str, ...]:
    """Mark lost runs as failed, or as cancelled where that was under way. Returns their ids; `now` in Unix seconds."""
    if instance.run_launcher.supports_check_run_worker_health:
        return ()
    now = time.time() if now is None else now
    lost = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=HELD)):
        run_id = record.dagster_run.run_id
        fault = _fault(_workers(instance, run_id), now - record.update_timestamp.timestamp())
        if fault is None:
            continue
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished:  # it ended while we looked
            continue
        if run.status == dg.DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, fault)
        else:
            instance.report_run_failed(run, fault)
        lost.append(run_id)
    return tuple(lost)


def _fault(workers: Sequence[tuple[int, float]], silent: float) -> str | None:
    """Why a run counts as lost, or None."""
    if any(_lives(pid, seen) for pid, seen in workers):
        return None
    if workers:
        return f"Lost: the process of this run ({workers[-1][0]}) ended without recording an end."
    if silent >= SILENT_SECONDS:
        return f"Lost: no process took up this run in {silent:.0f} s."
    return None


def _workers(instance: dg.DagsterInstance, run_id: str) -> list[tuple[int, float]]:
    """Process ids that the run recorded, each with the time (Unix seconds) at which it did, oldest first."""
    found = []
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        event = entry.dagster_event
        pid = event.engine_event_data.metadata.get("pid") if event is not None else None
        if pid is not None:
            found.append((int(str(pid.value)), entry.timestamp))
    return found


def _lives(pid: int, seen: float) -> bool:
    """Whether the process that was `pid` at the time `seen` still runs. Numbers are given out again, after a restart of
    a container even at once; a process that began after `seen` is another one."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # no /proc on this system, or gone by now: the signal's answer stands
        return True
    if fields[0] in ("Z", "X"):
        return False
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK") <= seen + CLOCK_SLACK
