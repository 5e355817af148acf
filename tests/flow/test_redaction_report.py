"""The report names run, family, rule, place and fingerprint; no value; and no key changes a digest."""

from pathlib import Path

import pyarrow.parquet as pq

from trace_flywheel.flow.ingest import ingest
from trace_flywheel.flow.inputs import side_inputs
from trace_flywheel.flow.policy import KEY_FILE
from trace_flywheel.flow.redaction_report import FILE, REPORT, TABLE, redaction_report
from trace_flywheel.lake.store import Lake
from trace_flywheel.sample.write import write_sample
from trace_flywheel.settings import load_settings
from trace_flywheel.sources import discover


def ingested(tmp_path: Path, home: str) -> Lake:
    roots = tmp_path / "runs"
    if not roots.exists():
        write_sample(roots)
    settings = load_settings(roots=(roots,), home=tmp_path / home)
    lake = Lake(settings.home)
    runs = discover.discover([roots]).runs
    list(ingest(runs, lake, settings, side_inputs(runs, settings), workers=1))
    redaction_report(lake, settings)
    return lake


def test_findings_of_every_run_are_told_without_a_value(tmp_path: Path) -> None:
    lake = ingested(tmp_path, "home")
    rows = lake.table(REPORT, TABLE).to_pylist()
    assert rows
    assert all(row["family"] and row["rule"] and row["place"] for row in rows)
    assert all(len(row["fingerprint"]) == 16 for row in rows)
    current = lake.current(REPORT)
    assert current is not None
    assert current.counts["findings"] == sum(row["findings"] for row in rows)
    for sidecar in lake.sidecars("redacted_rollouts"):
        told: dict[str, int] = {}
        for row in (r for r in rows if r["run_id"] == sidecar.run_id):
            told[row["rule"]] = told.get(row["rule"], 0) + row["findings"]
        assert told == sidecar.facts["findings"]


def test_the_key_is_the_homes_own_and_in_no_digest(tmp_path: Path) -> None:
    one, other = ingested(tmp_path, "one"), ingested(tmp_path, "other")
    assert (one.home / KEY_FILE).read_bytes() != (other.home / KEY_FILE).read_bytes()
    for mine, theirs in zip(one.sidecars("redacted_rollouts"), other.sidecars("redacted_rollouts"), strict=True):
        assert mine.content_digest == theirs.content_digest
        tables = [
            pq.read_table(lake.folder(s.asset, s.run_id) / s.generation / FILE)
            for lake, s in ((one, mine), (other, theirs))
        ]
        assert tables[0].drop_columns("fingerprint").num_rows == tables[1].num_rows
