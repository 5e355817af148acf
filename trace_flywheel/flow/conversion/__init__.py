"""Job folders to one trainer file: `flywheel convert`."""
