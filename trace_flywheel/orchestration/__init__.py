"""Floor 5: Dagster around the flow. Thin."""
