"""The report on redaction as an asset: what was replaced in which runs, without a value."""

from typing import Any

import dagster as dg

from trace_flywheel.flow import redaction_report as report
from trace_flywheel.flow.home import lake_of, shared
from trace_flywheel.flow.ingest_tasks import REDACTED
from trace_flywheel.lake.sidecar import TableSidecar
from trace_flywheel.orchestration import metadata
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
def redaction_report(settings: SettingsResource) -> dg.MaterializeResult[Any]:
    tree = settings.load()
    lake = lake_of(tree)
    with shared(tree):
        before = lake.current(report.REPORT)
        made = report.redaction_report(lake, tree)
    rows = lake.table(report.REPORT, report.TABLE)
    totals = rows.group_by(["family", "rule", "place"]).aggregate(
        [("findings", "sum"), ("fingerprint", "count_distinct")]
    )
    listed = totals.sort_by([("findings_sum", "descending"), ("rule", "ascending"), ("place", "ascending")]).to_pylist()
    shown = [
        (one["family"], one["rule"], one["place"], one["findings_sum"], one["fingerprint_count_distinct"])
        for one in listed[:ROWS_SHOWN]
    ]
    return dg.MaterializeResult(
        metadata={
            "changed": _changed(before, made),
            "dagster/row_count": rows.num_rows,
            "findings": made.counts["findings"],
            "values": made.counts["values"],
            "runs": made.counts["runs"],
            "by_rule": metadata.table(("family", "rule", "place", "findings", "values"), shown),
            "dagster/column_schema": metadata.column_schema(rows.schema),
        },
        data_version=dg.DataVersion(made.digest),
    )


def _changed(before: TableSidecar | None, made: TableSidecar) -> str:
    if before is None:
        return "first time"
    if before.inputs_digest == made.inputs_digest:
        return "nothing: the inputs are the same"
    return f"{made.counts['findings'] - before.counts['findings']:+d} findings"
