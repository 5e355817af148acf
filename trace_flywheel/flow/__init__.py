"""Floor 4: ingest, curate, publish: the three movements. No Dagster."""
