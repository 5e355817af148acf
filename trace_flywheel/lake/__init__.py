"""Floor 3: where partitions and dataset versions rest."""
