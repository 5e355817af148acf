"""Floor 2: one decision one file."""
