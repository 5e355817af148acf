"""One dynamic partition per job folder; its key is the run id. Only the per-run assets have partitions."""

import dagster as dg

runs = dg.DynamicPartitionsDefinition(name="runs")
all_runs = dg.AllPartitionMapping()
