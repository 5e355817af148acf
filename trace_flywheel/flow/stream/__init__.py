"""One line per finished rollout while a job is being written: `flywheel stream`."""
