"""The SFT dataset alone, from nothing: `python -m benchmarks.one_dataset JOBS HOME`.

What the straightforward build makes of job folders is one set of rows to train on; `flywheel refresh` makes six, in all
layouts. Here the product makes the one: the same ingestion, the advantages, and that dataset in its own layout with its
blocking checks, as Dagster runs.
"""

import sys
from pathlib import Path

import dagster as dg

from trace_flywheel.flow.names import ADVANTAGES, name_of
from trace_flywheel.flow.watch import watch
from trace_flywheel.lake.dataset import find_version
from trace_flywheel.lake.store import Lake
from trace_flywheel.orchestration import helper
from trace_flywheel.orchestration.definitions import build
from trace_flywheel.orchestration.headless import QUIET, Headless, Pinned
from trace_flywheel.orchestration.instance import instance
from trace_flywheel.orchestration.jobs import refresh_job
from trace_flywheel.settings import load_settings


def make(jobs: Path, home: Path) -> int:
    """Rows of the dataset."""
    settings = load_settings(home=home, roots=(jobs,), layouts=())
    Headless(settings).ingest([run.run_id for run in watch(settings, Lake(home)).todo])
    name = name_of("sft")
    job = build(settings, Pinned(settings)).resolve_job_def(refresh_job.name)
    wanted = [dg.AssetKey(ADVANTAGES), dg.AssetKey(name)]
    done = job.execute_in_process(instance=instance(home), asset_selection=wanted, run_config=QUIET)
    helper.end()
    if not done.success:
        raise SystemExit(f"{name} was not made")
    return find_version(home, name).rows


if __name__ == "__main__":
    print(make(Path(sys.argv[1]), Path(sys.argv[2])))
