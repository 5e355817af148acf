"""Two jobs: one ingests run partitions, one curates and publishes from what the lake holds.

Steps run in one process: Dagster's multiprocess executor costs seconds a step, and the steps themselves spread their
work over processes. The stage tag is what `dagster.yaml` limits and what the sensors look for.
"""

import dagster as dg

STAGE = "flywheel/stage"
INGEST_GROUP = "ingest"
SOURCE_GROUP = "sources"

ingest_job = dg.define_asset_job(
    "ingest_job",
    selection=dg.AssetSelection.groups(INGEST_GROUP),
    tags={STAGE: "ingest"},
    description="Read, redact and index job folders: one partition a folder, or a range of them in one run.",
)

refresh_job = dg.define_asset_job(
    "refresh_job",
    selection=dg.AssetSelection.all() - dg.AssetSelection.groups(INGEST_GROUP, SOURCE_GROUP),
    tags={STAGE: "publish"},
    description="Groups, selection, pairs, mix and publication over everything ingested so far.",
)
