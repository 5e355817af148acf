"""Floor 5: the flywheel command. Thin, lazy imports."""
