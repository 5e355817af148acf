"""One chain, from nothing: `python -m benchmarks.one_dataset JOBS HOME`.

What the straightforward build makes of job folders is one set of rows to train on; `flywheel refresh` makes six
datasets in all layouts. Here the product does the one thing too: the same ingestion, advantages, the SFT dataset and
the mix of it, each in its own layout with its blocking checks, as Dagster runs. Classes of the mix that the corpus
lacks give their share to the others. The import is small: every process below this one makes it again.
"""

import os
import sys
from pathlib import Path


def make(jobs: Path, home: Path) -> dict[str, int]:
    """Rows by dataset."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command does
    from trace_flywheel.flow.loading import loading

    with loading():
        import dagster as dg

        from trace_flywheel.flow.names import ADVANTAGES, CLASSIFIER, name_of
        from trace_flywheel.flow.watch import Seen, watch
        from trace_flywheel.lake.dataset import find_version
        from trace_flywheel.lake.store import Lake
        from trace_flywheel.orchestration import helper
        from trace_flywheel.orchestration.definitions import build
        from trace_flywheel.orchestration.headless import QUIET, Headless, Pinned
        from trace_flywheel.orchestration.instance import instance
        from trace_flywheel.orchestration.jobs import refresh_job
        from trace_flywheel.settings import load_settings

    settings = load_settings(home=home, roots=(jobs,), layouts=(), mix={"shortage": "renormalize"})
    before = watch(settings, Lake(home))
    seen = Seen(before.found, before.inputs, before.fingerprints)
    Headless(settings).ingest([run.run_id for run in before.todo], seen)
    job = build(settings, Pinned(settings)).resolve_job_def(refresh_job.name)
    names = [name_of("sft"), name_of("mix")]
    wanted = [dg.AssetKey(name) for name in (ADVANTAGES, CLASSIFIER, *names)]
    done = job.execute_in_process(instance=instance(home), asset_selection=wanted, run_config=QUIET)
    helper.end()
    if not done.success:
        raise SystemExit(f"{' and '.join(names)} were not made")
    return {name: find_version(home, name).rows for name in names}


if __name__ == "__main__":
    print(make(Path(sys.argv[1]), Path(sys.argv[2])))
