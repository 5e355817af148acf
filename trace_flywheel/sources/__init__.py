"""Floor 2: job folders to rollouts. One format one file."""
