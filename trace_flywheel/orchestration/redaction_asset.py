"""The report on redaction as an asset: what was replaced in which runs, without a value."""

from typing import Any

import dagster as dg

from trace_flywheel.flow import redaction_report as report
from trace_flywheel.flow.home import shared
from trace_flywheel.flow.ingest_tasks import REDACTED
from trace_flywheel.lake.sidecar import TableSidecar
from trace_flywheel.orchestration import helper, metadata
from trace_flywheel.orchestration.dataset_assets import CURATION_GROUP
from trace_flywheel.orchestration.partitions import all_runs
from trace_flywheel.orchestration.resources import SettingsResource

ROWS_SHOWN = 100


@dg.asset(
    name=report.REPORT,
    deps=[dg.AssetDep(REDACTED, partition_mapping=all_runs)],
    group_name=CURATION_GROUP,
    code_version="1",
    kinds={"parquet"},
    description="One row per run, rule, place and value that redaction replaced; values by keyed fingerprint only.",
)
def redaction_report(context: dg.AssetExecutionContext, settings: SettingsResource) -> dg.MaterializeResult[Any]:
    tree = settings.load()
    with shared(tree):
        found = helper.over_all(context.run.run_id, tree, report.reported, tree)
    made = found.made
    shown = [
        (one["family"], one["rule"], one["place"], one["findings_sum"], one["fingerprint_count_distinct"])
        for one in found.totals[:ROWS_SHOWN]
    ]
    return dg.MaterializeResult(
        metadata={
            "changed": _changed(found.before, made),
            "dagster/row_count": found.rows,
            "findings": made.counts["findings"],
            "values": made.counts["values"],
            "runs": made.counts["runs"],
            "by_rule": metadata.table(("family", "rule", "place", "findings", "values"), shown),
            "dagster/column_schema": metadata.column_schema(found.columns),
        },
        data_version=dg.DataVersion(made.digest),
    )


def _changed(before: TableSidecar | None, made: TableSidecar) -> str:
    if before is None:
        return "first time"
    if before.inputs_digest == made.inputs_digest:
        return "nothing: the inputs are the same"
    return f"{made.counts['findings'] - before.counts['findings']:+d} findings"
