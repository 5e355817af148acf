"""The nightly safety net: what a sensor missed is published once a day all the same."""

from datetime import timedelta

import dagster as dg

from trace_flywheel.orchestration.jobs import refresh_job

NIGHTLY = dg.FreshnessPolicy.time_window(warn_window=timedelta(hours=26), fail_window=timedelta(hours=50))
"""What the schedule promises: a dataset whose night was missed is shown late, one that missed two is shown stale. A day
and two hours, because a night's publication may take longer than the last one's."""


def nightly_refresh(status: dg.DefaultScheduleStatus) -> dg.ScheduleDefinition:
    """03:15 UTC, after most nightly jobs and before anyone looks."""
    return dg.ScheduleDefinition(
        name="nightly_refresh",
        job=refresh_job,
        cron_schedule="15 3 * * *",
        execution_timezone="UTC",
        default_status=status,
        description="Curates and publishes once a day. Off until `automation.start = true` or the switch on this page.",
    )
