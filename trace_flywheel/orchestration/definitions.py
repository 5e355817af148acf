"""The code location: sources, per-run assets, assets over all runs, checks, jobs, sensors and schedule.

`build` makes it for given settings; `defs` is what Dagster loads. Recipes and the switch of the sensors are read when
the location loads, everything else when a run starts.
"""

from typing import Any

import dagster as dg

from trace_flywheel.flow import names
from trace_flywheel.orchestration.checks import (
    INGEST_CHECKS,
    advantages_sum_to_zero,
    mix_on_target,
    no_task_collapsed,
    promises_of,
)
from trace_flywheel.orchestration.dataset_assets import asset_of, specs
from trace_flywheel.orchestration.ingest_assets import INGEST_ASSETS
from trace_flywheel.orchestration.jobs import ingest_job, refresh_job
from trace_flywheel.orchestration.redaction_asset import redaction_report
from trace_flywheel.orchestration.resources import SettingsResource
from trace_flywheel.orchestration.schedules import NIGHTLY, nightly_refresh
from trace_flywheel.orchestration.sensors import job_folders_sensor, refresh_sensor
from trace_flywheel.orchestration.sources import SOURCES
from trace_flywheel.settings import Settings, load_settings


def build(settings: Settings, resource: Any) -> dg.Definitions:
    """Definitions with the recipes of `settings`; `resource` gives each run its settings."""
    recipes = sorted(settings.datasets)
    made = list(specs(settings))
    mixes = [names.name_of("mix", recipe) for recipe in (None, *recipes)]
    start = settings.automation.start
    sensor_status = dg.DefaultSensorStatus.RUNNING if start else dg.DefaultSensorStatus.STOPPED
    schedule_status = dg.DefaultScheduleStatus.RUNNING if start else dg.DefaultScheduleStatus.STOPPED
    freshness = NIGHTLY if start else None
    return dg.Definitions(
        assets=[*SOURCES, *INGEST_ASSETS, redaction_report, *(asset_of(spec, freshness) for spec in made)],
        asset_checks=[
            *INGEST_CHECKS,
            advantages_sum_to_zero,
            *(promises_of(names.name_of(kind, recipe), kind) for kind, recipe in names.every(settings)),
            *map(mix_on_target, mixes),
            *(no_task_collapsed(names.name_of("sft", recipe)) for recipe in (None, *recipes)),
        ],
        jobs=[ingest_job, refresh_job],
        sensors=[job_folders_sensor(sensor_status), refresh_sensor(sensor_status)],
        schedules=[nightly_refresh(schedule_status)],
        resources={"settings": resource},
        executor=dg.in_process_executor,
    )


defs = build(load_settings(), SettingsResource())
