"""The depth classifier at work on files: `flywheel depth`."""
