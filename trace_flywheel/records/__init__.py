"""Floor 1: what flows. Frozen records that import nothing else of the project."""
