"""The per-run assets: one partition a job folder, many of them in one run.

A bad folder never raises here: in a range run that would lose the events of all others. It is quarantined with its
reason, and its partition's metadata say so. Raw text is never previewed and never logged; previews begin with
`redacted_rollouts`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import dagster as dg
from dagster._core.execution.context.metadata_logging import AssetMetadataHandle, OutputMetadataAccumulator

from trace_flywheel.flow import ingest
from trace_flywheel.flow.expected import CODE
from trace_flywheel.flow.home import lake_of, shared
from trace_flywheel.flow.ingest_tasks import GRADED, INDEX, REDACTED
from trace_flywheel.flow.steps import StepResult
from trace_flywheel.lake.lock import held, writing
from trace_flywheel.lake.run_lock import working_on
from trace_flywheel.orchestration import helper, metadata
from trace_flywheel.orchestration.jobs import INGEST_GROUP
from trace_flywheel.orchestration.once import looks
from trace_flywheel.orchestration.partitions import runs
from trace_flywheel.orchestration.resources import SettingsResource

Step = Callable[..., Iterator[StepResult]]


def _materialize(
    context: dg.AssetExecutionContext, settings: SettingsResource, step: Step
) -> dg.MaterializeResult[Any]:
    """Run one step of ingestion over the partitions of this run, and say per partition what came of it."""
    tree = settings.load()
    lake = lake_of(tree)
    asset = context.asset_key.path[-1]
    keys: Sequence[str] = context.partition_keys
    seen = looks.of(context.run.run_id, tree)
    wanted = set(keys)
    chosen = [run for run in seen.found if run.run_id in wanted]
    paths = {run.run_id: run.path for run in chosen}
    digest = None
    shared = lake, tree, seen.inputs, None, seen.fingerprints(chosen)
    results = helper.over_runs(tree, chosen, ingest.all_of, shared, (step, chosen))
    told: dict[str, metadata.Metadata] = {}
    for result in results:
        key, after = result.run_id, result.sidecar
        told[key] = metadata.of_partition(result, paths[key])
        digest = after.content_digest if after is not None else None
        if result.status == "quarantined":
            context.log.warning(f"{key} is quarantined: {result.reason}")
    for key in sorted(wanted - set(paths)):
        context.log.warning(f"{key}: its folder is not below the roots; what was read from it before stays")
        told[key] = {"status": "folder is away"}
    _tell(context, told)
    return dg.MaterializeResult(
        metadata=metadata.of_all_runs(lake, asset),
        data_version=dg.DataVersion(digest[:16]) if digest and len(keys) == 1 else None,
    )


def _tell(context: dg.AssetExecutionContext, told: Mapping[str, metadata.Metadata]) -> None:
    """`context.add_asset_metadata` of partitions of this run. That one reads all keys that Dagster knows and copies
    what it was told before, for each of them."""
    step = context.op_execution_context.get_step_execution_context()
    known = dict(step._metadata_accumulator.per_output_metadata)
    known.update({AssetMetadataHandle(asset_key=context.asset_key, partition_key=key): told[key] for key in told})
    step._metadata_accumulator = OutputMetadataAccumulator(per_output_metadata=known)


def _asset(name: str, step: Step, deps: Sequence[str], kinds: set[str], description: str) -> dg.AssetsDefinition:
    @dg.asset(
        name=name,
        deps=deps,
        group_name=INGEST_GROUP,
        partitions_def=runs,
        backfill_policy=dg.BackfillPolicy.single_run(),
        code_version=str(CODE[name]),
        kinds=kinds,
        description=description,
    )
    def materialize(context: dg.AssetExecutionContext, settings: SettingsResource) -> dg.MaterializeResult[Any]:
        tree = settings.load()
        alone = held(tree.home)  # by the one that has this run made
        with (
            writing(tree.home, shared=True),
            nullcontext() if alone else working_on(tree.home, context.partition_keys),
            shared(tree),
        ):
            return _materialize(context, settings, step)

    return materialize


graded_traces = _asset(
    GRADED,
    ingest.graded_traces,
    ["job_folders"],
    {"parquet"},
    "One row per rollout of a job folder, as read. The only asset with raw text: private files, no previews.",
)
redacted_rollouts = _asset(
    REDACTED,
    ingest.redacted_rollouts,
    [GRADED, "corrections"],
    {"parquet"},
    "One row per rollout without secrets and personal data; what could not be made clean was dropped.",
)
rollout_index = _asset(
    INDEX,
    ingest.rollout_index,
    [REDACTED, "eval_goldens"],
    {"parquet"},
    "One row per redacted rollout: keys, rewards, hashes and sketches. No text; what all later decisions work on.",
)

INGEST_ASSETS = (graded_traces, redacted_rollouts, rollout_index)
