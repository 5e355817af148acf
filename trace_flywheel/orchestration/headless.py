"""The Dagster jobs in this process, without daemon or webserver: what `flywheel refresh` runs.

Runs go into the instance of the home, so they stand in the UI's history like any other. Everything new or changed is
ingested as range runs over contiguous partitions: one run, unless changed folders lie scattered among old ones.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import dagster as dg
from dagster_shared.error import SerializableErrorInfo
from sqlalchemy.exc import OperationalError

from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.watch import Seen
from trace_flywheel.orchestration import helper
from trace_flywheel.orchestration.definitions import build
from trace_flywheel.orchestration.instance import instance
from trace_flywheel.orchestration.jobs import ingest_job, refresh_job
from trace_flywheel.orchestration.lost import end_lost_runs
from trace_flywheel.orchestration.once import inputs, looks
from trace_flywheel.orchestration.partitions import runs
from trace_flywheel.orchestration.sensors import range_tags, stretches
from trace_flywheel.orchestration.storage import events_together
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.settings import Settings

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class Pinned:
    """Stands in for the settings resource with the settings of the command line."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def load(self) -> Settings:
        return self._settings


class Headless:
    """The jobs of one home under given settings."""

    def __init__(self, settings: Settings) -> None:
        self._home = settings.home
        self._definitions = build(settings, Pinned(settings))
        try:
            self._instance = instance(settings.home)
            end_lost_runs(self._instance)
        except OperationalError as error:
            raise _unwritable(settings.home, error) from None

    def ingest(self, keys: Sequence[str], seen: Seen) -> None:
        """Register and materialise the partitions of these runs, as they were seen."""
        name = runs.name or ""
        try:
            known = set(self._instance.get_dynamic_partitions(name))
            if new := [key for key in keys if key not in known]:
                self._instance.add_dynamic_partitions(name, new)
            order = self._instance.get_dynamic_partitions(name)
        except OperationalError as error:
            raise _unwritable(self._home, error) from None
        for stretch in stretches(order, set(keys)):
            with looks.known(seen):
                self._run(ingest_job.name, range_tags(stretch))

    def publish(self, side_inputs: SideInputs) -> None:
        """Curate and publish from the whole lake with these side inputs."""
        with inputs.known(side_inputs):
            self._run(refresh_job.name, {})

    def _run(self, job_name: str, tags: dict[str, str]) -> None:
        job = self._definitions.resolve_job_def(job_name)
        try:
            with events_together(), _signals() as came:
                result = job.execute_in_process(
                    instance=self._instance, tags=tags, run_config=QUIET, raise_on_error=False
                )
                interrupted = came()
        except OperationalError as error:
            raise _unwritable(self._home, error) from None
        finally:
            helper.end()
        if interrupted:
            raise KeyboardInterrupt
        if not result.success:
            raise FlywheelError(f"{job_name}: {_failure(result)} (run {result.run_id} in `flywheel ui`)")


def _unwritable(home: Path, error: OperationalError) -> FlywheelError:
    said = str(error.orig or error).splitlines()[0]
    return FlywheelError(
        f"{home / 'dagster'}: Dagster's history cannot be written ({said}); make room, or see who else holds it, and "
        "refresh again"
    )


def _failures(result: dg.ExecuteInProcessResult) -> Iterator[tuple[str, SerializableErrorInfo | None]]:
    """Each step that failed, and the innermost error it recorded."""
    for event in result.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            while error is not None and error.cause is not None:
                error = error.cause
            yield event.step_key or "", error


@contextmanager
def _signals() -> Iterator[Callable[[], bool]]:
    """Whether SIGINT, SIGTERM or SIGHUP has come since the block began. Dagster takes one for an error of the step at
    work or of the run, and forgets one that comes after the last step; Python tells of each here, whoever takes it."""
    if threading.current_thread() is not threading.main_thread():  # where no signal arrives
        yield lambda: False
        return
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def came() -> bool:
        with suppress(BlockingIOError):
            return bool({signal.SIGINT, signal.SIGTERM, signal.SIGHUP} & set(os.read(reading, 4096)))
        return False

    try:
        yield came
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


def _failure(result: dg.ExecuteInProcessResult) -> str:
    for step, error in _failures(result):
        return f"{step}: {error.message.strip() if error is not None else 'no error recorded'}"
    return "a blocking check failed"
