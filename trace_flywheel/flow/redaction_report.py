"""What redaction replaced: by run, family, rule, place and value, a value told by its keyed fingerprint.

Each run's findings lie beside its redacted parts, in `findings.parquet`, outside every digest: the key is the home's
own. `redaction_report` puts those of all runs together; a run that was erased from since has its counts by rule only
in its facts.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from trace_flywheel.flow.home import lake_of
from trace_flywheel.flow.ingest_tasks import REDACTED, Outcome
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.lake.columns import table, table_in
from trace_flywheel.lake.sidecar import TableSidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.canonical import content_id
from trace_flywheel.redaction.policy import Sighting
from trace_flywheel.settings import Settings

REPORT, TABLE, FILE = "redaction_report", "findings", "findings.parquet"
SCHEMA = pa.schema(
    [("rule", pa.string()), ("place", pa.string()), ("fingerprint", pa.string()), ("findings", pa.int64())]
)
REPORT_SCHEMA = pa.schema([("run_id", pa.string()), ("family", pa.string()), *SCHEMA])


class Reported(msgspec.Struct, frozen=True):
    """The report as it was and is, and what a page shows of it: its columns, and findings by rule and place."""

    before: TableSidecar | None
    made: TableSidecar
    columns: pa.Schema
    rows: int
    totals: tuple[dict[str, Any], ...]


def write_findings(folder: Path, outcomes: Iterable[Outcome]) -> None:
    """The findings of a run beside its parts."""
    counts: Counter[Sighting] = Counter()
    for outcome in outcomes:
        counts.update(outcome.sightings)
    if not counts:
        (folder / FILE).write_bytes(_no_findings())
        return
    rows = [
        {"rule": seen.rule, "place": seen.place, "fingerprint": seen.fingerprint, "findings": n}
        for seen, n in sorted(counts.items(), key=lambda item: (item[0].rule, item[0].place, item[0].fingerprint))
    ]
    pq.write_table(table(rows, SCHEMA), folder / FILE)


@cache
def _no_findings() -> bytes:
    stream = BytesIO()
    pq.write_table(table([], SCHEMA), stream)
    return stream.getvalue()


def redaction_report(lake: Lake, settings: Settings) -> TableSidecar:
    """The report of all runs, made anew when one of them changed; counts are `findings`, `values` and `by_rule`."""
    runs, before = lake.sidecars(REDACTED), lake.whole(REPORT)
    digest = content_id([(run.run_id, run.content_digest) for run in runs])
    if before is not None and before.inputs_digest == digest:
        return before
    families = {rule.name: rule.family for rule in policy_of(settings).in_force()}
    rows = []
    for run in runs:
        # Runs without findings, most of many, are not opened.
        path = lake.generation_folder(run) / FILE if run.facts.get("findings", True) else None
        if path is not None and path.is_file():
            found = table_in(path).to_pylist()
            rows += [{"run_id": run.run_id, "family": families.get(row["rule"], ""), **row} for row in found]
    counts = {
        "runs": len(runs),
        "findings": sum(row["findings"] for row in rows),
        "values": len({(row["rule"], row["fingerprint"]) for row in rows}),
        "by_rule": by_rule(rows),
    }
    return lake.put(REPORT, {TABLE: table(rows, REPORT_SCHEMA)}, digest, counts)


def reported(settings: Settings) -> Reported:
    """Make the report, or find that it stands; totals are by family, rule and place, the most frequent first."""
    lake = lake_of(settings)
    before = lake.current(REPORT)
    made = redaction_report(lake, settings)
    rows = lake.table(REPORT, TABLE)
    # Arrow groups by its engine for datasets, 50 MB that nothing else here needs.
    keys = ["family", "rule", "place"]
    found = rows.select([*keys, "findings", "fingerprint"]).to_pandas().groupby(keys, dropna=False)
    totals = found.agg(findings_sum=("findings", "sum"), fingerprint_count_distinct=("fingerprint", "nunique"))
    order = totals.reset_index().sort_values(["findings_sum", "rule", "place"], ascending=[False, True, True])
    return Reported(before, made, rows.schema, rows.num_rows, tuple(order.to_dict("records")))


def by_rule(rows: Sequence[dict[str, object]]) -> dict[str, int]:
    """Findings by rule, the most frequent first."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts[str(row["rule"])] += int(str(row["findings"]))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
