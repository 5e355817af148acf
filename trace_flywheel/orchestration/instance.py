"""Dagster's own storage below the home, and the workspace that `flywheel ui` serves.

`dagster dev` in the checkout reads the top-level `dagster.yaml`, which is `instance_yaml(".flywheel/dagster")`; an
installed `flywheel ui` gets the same text with absolute paths in `<home>/dagster`. Both name the code location
`trace_flywheel`, which is what Dagster keys sensor state by: one history, however it was started.
"""

from pathlib import Path

import dagster as dg

LOCATION = "trace_flywheel"

_INSTANCE = """\
# Dagster's settings. Every path lies below {base}, so the first `dagster dev` keeps its history
# without DAGSTER_HOME; `flywheel ui` uses the same folders.
storage:
  sqlite:
    base_dir: {base}/storage
local_artifact_storage:
  module: dagster._core.storage.root
  class: LocalArtifactStorage
  config:
    base_dir: {base}/artifacts
compute_logs:
  module: dagster._core.storage.local_compute_log_manager
  class: LocalComputeLogManager
  config:
    base_dir: {base}/logs
telemetry:
  enabled: false
nux:
  enabled: false
# Ingest runs of different job folders go side by side; never two of one folder, and one publication at a time.
concurrency:
  runs:
    max_concurrent_runs: 4
    tag_concurrency_limits:
      - key: dagster/partition
        value:
          applyLimitPerUniqueValue: true
        limit: 1
      - key: flywheel/stage
        value: publish
        limit: 1
sensors:
  use_threads: true
  num_workers: 2
schedules:
  use_threads: true
  num_workers: 2
retention:
  sensor:
    purge_after_days:
      skipped: 1
      success: 30
      failure: 30
"""

_WORKSPACE = """\
load_from:
  - python_module:
      module_name: trace_flywheel.orchestration.definitions
      location_name: {location}
"""


def instance_yaml(base: str) -> str:
    """Text of `dagster.yaml` for storage below `base`."""
    return _INSTANCE.format(base=base)


def dagster_home(home: Path) -> Path:
    """The folder for DAGSTER_HOME, with its two files brought up to date. Absolute, as Dagster wants it."""
    folder = (home / "dagster").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("dagster.yaml", instance_yaml(folder.as_posix())),
        ("workspace.yaml", _WORKSPACE.format(location=LOCATION)),
    ):
        path = folder / name
        if not path.is_file() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    return folder


def instance(home: Path) -> dg.DagsterInstance:
    """The instance of a home, for runs in this process."""
    return dg.DagsterInstance.from_config(str(dagster_home(home)))
