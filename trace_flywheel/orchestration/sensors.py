"""Two sensors: one asks for job folders to be ingested, one for a refresh when what was ingested has settled.

The lake says what is done, so a lost or failed run is seen again. A cursor holds only what is in flight: asked for and
not done, with the digest of all that it would be made from and the number of requests. Dagster remembers a run key for
ever and passes over one that it knows; states come back (settings tried and taken back), so a key also names its tick.
"""

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg

from trace_flywheel.flow.expected import Expected
from trace_flywheel.flow.freshness import freshness
from trace_flywheel.flow.home import bring_up_to_date, lake_of
from trace_flywheel.flow.ingest_tasks import INDEX
from trace_flywheel.flow.watch import Watch, side_inputs_now, watch
from trace_flywheel.lake.quarantine import quarantine, quarantined
from trace_flywheel.lake.store import Lake
from trace_flywheel.orchestration.jobs import STAGE, ingest_job, refresh_job
from trace_flywheel.orchestration.lost import end_lost_runs
from trace_flywheel.orchestration.partitions import runs
from trace_flywheel.orchestration.resources import SettingsResource
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.settings import Settings
from trace_flywheel.sources.reader import Run
from trace_flywheel.sources.run_state import state

SINGLE_RUNS = 50
"""Run requests a tick: submitting one takes the daemon 0.8 s."""
RANGE_KEYS = 1_000
"""Keys of a range run: 6.5 ms a key and asset to create, 16 s of events."""
ATTEMPTS = 3
"""Requests for one state of a folder, or of the lake, that may end without result."""
ACTIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
DIGITS = 16
"""Hexadecimal digits of a state's digest in cursors and run keys."""
RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


def stretches(order: Sequence[str], wanted: set[str]) -> list[list[str]]:
    """The wanted keys as contiguous stretches of `order` of at most `RANGE_KEYS`: what a range run can name."""
    made: list[list[str]] = []
    last = -2
    for position, key in enumerate(order):
        if key not in wanted:
            continue
        if position == last + 1 and len(made[-1]) < RANGE_KEYS:
            made[-1].append(key)
        else:
            made.append([key])
        last = position
    return made


def range_tags(keys: Sequence[str]) -> dict[str, str]:
    return {RANGE_START: keys[0], RANGE_END: keys[-1]}


def _running(instance: dg.DagsterInstance, stage: str) -> bool:
    """Whether a run of this stage is under way. Lost ones are ended first, or they would be for ever."""
    end_lost_runs(instance)
    return bool(instance.get_run_records(dg.RunsFilter(statuses=ACTIVE, tags={STAGE: stage}), limit=1))


def _observed(run: Run) -> dg.AssetObservation:
    seen = state(run)
    return dg.AssetObservation(
        "job_folders",
        partition=run.run_id,
        metadata={"path": dg.MetadataValue.path(str(run.path)), "files": seen.files, "bytes": seen.size},
        tags={"dagster/data_version": seen.fingerprint[:16]},
    )


def _tick_id(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")


def _said(seen: Watch, flight: int, lost: Sequence[str]) -> str:
    text = f"{len(seen.unchanged)} unchanged, {len(seen.waiting)} still being written, {flight - len(lost)} in flight"
    if lost:
        text += f", {len(lost)} lost {ATTEMPTS} times ({lost[0]}): `flywheel refresh` reads them"
    if seen.missing:
        text += f", missing roots: {', '.join(map(str, seen.missing))}"
    if seen.given_up:
        text += f", {len(seen.given_up)} given up ({seen.given_up[0].run_id})"
    if seen.problems:
        text += f", {len(seen.problems)} unreadable ({seen.problems[0].path})"
    if seen.gone:
        text += f", {len(seen.gone)} in the lake whose folder is away ({seen.gone[0]})"
    return text


def ingest_tick(context: dg.SensorEvaluationContext, settings: Settings, now: float) -> dg.SensorResult | dg.SkipReason:
    """One look at the roots. Asks for each finished, settled folder that the lake does not hold in this state."""
    try:
        bring_up_to_date(settings)
        lake = lake_of(settings)
        seen = watch(settings, lake, now, strict=False)
    except FlywheelError as error:
        return dg.SkipReason(str(error))
    before: dict[str, tuple[str, int]] = {k: (f, n) for k, (f, n) in json.loads(context.cursor or "{}").items()}
    busy = _running(context.instance, "ingest")
    asked: dict[str, Run] = {}
    flight: dict[str, tuple[str, int]] = {}
    lost: list[str] = []
    expected = Expected(lake, settings, seen.inputs)
    for run in seen.todo:
        key, folder = run.run_id, seen.fingerprints[run.run_id]
        now_is = expected.state(key, folder)[:DIGITS]
        last, attempts = before.get(key, ("", 0))
        if last != now_is:
            attempts = 0
        elif busy or attempts >= ATTEMPTS:
            flight[key] = (last, attempts)
            if attempts >= ATTEMPTS and not busy:
                lost.append(key)
                _quarantine(lake, key, folder)
            continue
        asked[key] = run
        flight[key] = (now_is, attempts + 1)
    if not asked:
        return _skip(context, flight, _said(seen, len(flight), lost))
    known = context.instance.get_dynamic_partitions(runs.name or "")
    registered = set(known)
    new = [key for key in asked if key not in registered]
    groups = [[key] for key in asked] if len(asked) <= SINGLE_RUNS else _bulk(stretches([*known, *new], set(asked)))
    chosen = {key for group in groups for key in group}
    flight = {key: value for key, value in flight.items() if key not in asked or key in chosen}
    return dg.SensorResult(
        run_requests=[_request(group, flight, now) for group in groups],
        dynamic_partitions_requests=[runs.build_add_request([k for k in new if k in chosen])] if new else [],
        asset_events=[_observed(asked[key]) for key in asked] if len(asked) <= SINGLE_RUNS else [],
        cursor=json.dumps(flight, sort_keys=True),
    )


def _bulk(found: list[list[str]]) -> list[list[str]]:
    """As many stretches as one tick may ask for; the others are seen again by the next one."""
    groups: list[list[str]] = []
    for group in found[:SINGLE_RUNS]:
        if groups and sum(map(len, groups)) + len(group) > RANGE_KEYS:
            break
        groups.append(group)
    return groups


def _quarantine(lake: Lake, key: str, folder: str) -> None:
    """Have the check and `flywheel doctor` name a folder that was given up. Once: it may still be read by hand."""
    known = quarantined(lake, key)
    if known is None or known.source_fingerprint != folder:
        quarantine(lake, key, f"{ATTEMPTS} runs that were to read it came to no end", folder)


def _request(keys: Sequence[str], flight: Mapping[str, tuple[str, int]], now: float) -> dg.RunRequest:
    made_from, attempt = flight[keys[0]]
    more = f"+{len(keys) - 1}" if len(keys) > 1 else ""
    run_key = f"{keys[0]}{more}@{made_from}@{_tick_id(now)}#{attempt}"
    if len(keys) == 1:
        return dg.RunRequest(run_key=run_key, partition_key=keys[0])
    return dg.RunRequest(run_key=run_key, tags=range_tags(keys))


def _skip(
    context: dg.SensorEvaluationContext, flight: dict[str, tuple[str, int]], text: str
) -> dg.SensorResult | dg.SkipReason:
    cursor = json.dumps(flight, sort_keys=True)
    if cursor != (context.cursor or "{}"):
        context.update_cursor(cursor)
    return dg.SkipReason(text)


def refresh_tick(context: dg.SensorEvaluationContext, settings: Settings, now: float) -> dg.RunRequest | dg.SkipReason:
    """Asks for one refresh when the lake differs from what was published and nothing moves any more."""
    try:
        bring_up_to_date(settings)
    except FlywheelError as error:
        return dg.SkipReason(str(error))
    lake = lake_of(settings)
    newest = lake.newest(INDEX)
    if newest is None:
        return dg.SkipReason("Nothing is ingested yet.")
    if _running(context.instance, "ingest") or _running(context.instance, "publish"):
        return dg.SkipReason("Ingest or publication is running.")
    age = now - newest
    if abs(age) < settings.ingest.quiet_seconds:  # far ahead of now it is of a clock that was set back
        return dg.SkipReason(f"The last partition is {age:.0f} s old; waiting for quiet.")
    try:
        digest, out_of_date = freshness(lake, settings, side_inputs_now(settings))
    except FlywheelError as error:
        return dg.SkipReason(str(error))
    if not out_of_date:
        context.update_cursor(json.dumps(["", 0]))
        return dg.SkipReason("Published datasets are up to date.")
    digest = digest[:DIGITS]
    before, attempts = json.loads(context.cursor or '["", 0]')
    attempt = attempts + 1 if before == digest else 1
    if attempt > ATTEMPTS:
        return dg.SkipReason(
            f"A refresh of this state failed {ATTEMPTS} times; mend it, then run `flywheel refresh` or refresh_job."
        )
    context.update_cursor(json.dumps([digest, attempt]))
    return dg.RunRequest(run_key=f"refresh@{digest}@{_tick_id(now)}#{attempt}")


_HOW = " Off until `automation.start = true` or the switch on this page."


def job_folders_sensor(status: dg.DefaultSensorStatus) -> dg.SensorDefinition:
    @dg.sensor(
        name="job_folders_sensor",
        job=ingest_job,
        minimum_interval_seconds=30,
        default_status=status,
        description="New and changed job folders, once they are finished and quiet." + _HOW,
    )
    def evaluate(context: dg.SensorEvaluationContext, settings: SettingsResource) -> dg.SensorResult | dg.SkipReason:
        return ingest_tick(context, settings.load(), time.time())

    return evaluate


def refresh_sensor(status: dg.DefaultSensorStatus) -> dg.SensorDefinition:
    @dg.sensor(
        name="refresh_sensor",
        job=refresh_job,
        minimum_interval_seconds=60,
        default_status=status,
        description="One refresh when the ingested runs changed and came to rest." + _HOW,
    )
    def evaluate(context: dg.SensorEvaluationContext, settings: SettingsResource) -> dg.RunRequest | dg.SkipReason:
        return refresh_tick(context, settings.load(), time.time())

    return evaluate
