"""Dagster's own storage below the home, and the workspace that `flywheel ui` serves.

`dagster dev` in the checkout reads the top-level `dagster.yaml`, which is `instance_yaml(".flywheel/dagster")`; an
installed `flywheel ui` gets the same text with absolute paths in `<home>/dagster`. Both name the code location
`trace_flywheel`, which is what Dagster keys sensor state by: one history, however it was started.
"""

import glob
import json
from pathlib import Path

import dagster as dg
import yaml  # type: ignore[import-untyped]  # its types are a package of their own
from dagster._core.instance.ref import InstanceRef  # `dg` has no way to hand settings over

from trace_flywheel.orchestration import compute_logs, storage
from trace_flywheel.records.errors import FlywheelError

LOCATION = "trace_flywheel"

_INSTANCE = """\
# Dagster's settings. Every path lies below one folder, so the first `dagster dev` keeps its history
# without DAGSTER_HOME; `flywheel ui` uses the same folders.
storage:
  sqlite:
    base_dir: {storage}
local_artifact_storage:
  module: dagster._core.storage.root
  class: LocalArtifactStorage
  config:
    base_dir: {artifacts}
compute_logs:
  module: dagster._core.storage.local_compute_log_manager
  class: LocalComputeLogManager
  config:
    base_dir: {logs}
# What a step warns of, and errors; every event stands in the history.
python_logs:
  python_log_level: INFO
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
# Ends runs that never start or never stop. A started run whose process is gone is ended by sensors, `flywheel refresh`
# and `flywheel ui`: the default launcher cannot look at its workers.
run_monitoring:
  enabled: true
  start_timeout_seconds: 180
  cancel_timeout_seconds: 180
  max_resume_run_attempts: 0
  poll_interval_seconds: 60
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
      working_directory: {folder}
"""
"""Dagster looks for modules in the working directory first, which else is the current one and may be a job folder."""


def instance_yaml(base: str) -> str:
    """Text of `dagster.yaml` for storage below `base`."""
    # JSON strings are YAML whatever stands in them: blanks, `#`, `: `, quotes.
    paths = {name: json.dumps(f"{base}/{name}", ensure_ascii=False) for name in ("storage", "artifacts", "logs")}
    return _INSTANCE.format(**paths)


def dagster_home(home: Path) -> Path:
    """The folder for DAGSTER_HOME, with its two files brought up to date. Absolute, as Dagster wants it.

    Raises `FlywheelError` for a home whose path Dagster would put elsewhere: it stands in the URL of a database.
    """
    folder = (home / "dagster").absolute()
    if any(c in "%?" or ord(c) < 32 for c in str(folder)):
        raise FlywheelError(
            f"{home.absolute()}: Dagster cannot keep its storage below a path with % or ? or a control character; "
            "give another --home"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("dagster.yaml", instance_yaml(folder.as_posix())),
        ("workspace.yaml", _WORKSPACE.format(location=LOCATION, folder=json.dumps(str(folder), ensure_ascii=False))),
    ):
        path = folder / name
        if not path.is_file() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    return folder


def instance(home: Path) -> dg.DagsterInstance:
    """The instance of a home, for runs in this process.

    The settings are handed over beside the file: Dagster takes the file's path for a pattern, and so finds none below
    a folder with brackets in its name.
    """
    folder = dagster_home(home)
    settings = yaml.safe_load(instance_yaml(folder.as_posix()))
    settings["storage"] = {
        "custom": {"module": storage.MODULE, "class": storage.CLASS, "config": settings["storage"]["sqlite"]}
    }
    settings["compute_logs"] |= {"module": compute_logs.MODULE, "class": compute_logs.CLASS}
    return dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(folder), overrides=settings))


def served_home(home: Path) -> Path:
    """The folder for the DAGSTER_HOME of other processes, which read its file. `FlywheelError` where they would not."""
    folder = dagster_home(home)
    if glob.escape(str(folder)) != str(folder):
        raise FlywheelError(
            f"{home.absolute()}: Dagster's pages cannot be served from a path with [ or *; move the home"
        )
    return folder
