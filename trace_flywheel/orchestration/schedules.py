"""The nightly safety net: what a sensor missed is published once a day all the same."""

import dagster as dg

from trace_flywheel.orchestration.jobs import refresh_job


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
