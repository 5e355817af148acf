"""Many small job folders: `python -m benchmarks.many_runs --runs 10000`. What Dagster and the lake cost, text apart.

A folder is a run of an eval harness with two short rollouts, so that nearly all of the time is what a run costs and not
what its bytes cost. The runs are ingested from zero as the sensor asks for it (range runs of at most 1,000 keys, here
executed in this process), then published; then come the sensor's tick on known folders, a refresh with nothing new, a
refresh with one new run, and a backfill of 1,000 runs as one. `--home` keeps the home, for a look at its pages; with
`--known` the home that an earlier call kept there is measured on, from the tick on known folders.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TASKS = 100
WORDS = """sum table file path loop error cache query index build patch server client token layer graph queue shard
    batch score""".split()  # noqa: SIM905  # a list of one word a line says no more
LATER = 3600.0
"""Seconds after now at which every folder is quiet."""


def row(rng: random.Random, run: str, attempt: int, task: int) -> dict[str, Any]:
    """One graded rollout of a question and a short answer."""
    passed = rng.random() < 0.5
    return {
        "task_id": f"task-{task:03d}",
        "trace_id": f"{run}-a{attempt}",
        "messages": [
            {"role": "user", "content": f"Task {task}: mend the {WORDS[task % len(WORDS)]} so that every test passes."},
            {"role": "assistant", "content": " ".join(rng.choices(WORDS, k=40)) + "."},
        ],
        "verdict": "pass" if passed else "fail",
        "reward": 1.0 if passed else 0.0,
        "grader": "tests",
    }


def write_runs(folder: Path, runs: range, seed: int = 42) -> None:
    """`<folder>/runs/<name>/results.json` for each number, two rollouts of one task in each."""
    for number in runs:
        rng = random.Random(f"{seed}:{number}")
        name = f"run-{number:06d}"
        (folder / "runs" / name).mkdir(parents=True)
        rows = [row(rng, name, attempt, number % TASKS) for attempt in range(2)]
        (folder / "runs" / name / "results.json").write_text(json.dumps(rows))


class Home:
    """One home under measurement. Imports wait until they are measured."""

    def __init__(self, home: Path, jobs: Path) -> None:
        from trace_flywheel.lake.store import Lake
        from trace_flywheel.settings import load_settings

        self.settings = load_settings(home=home, roots=(jobs,))
        self.lake = Lake(home)
        self.cursor: str | None = None

    def refresh(self) -> dict[str, Any]:
        from trace_flywheel.cli.refresh import refreshed

        return refreshed(self.settings).document["runs"]

    def tick(self) -> Any:
        """One look of the sensor, carrying its cursor on and adding the partitions it asks for."""
        import dagster as dg

        from trace_flywheel.orchestration.instance import instance
        from trace_flywheel.orchestration.sensors import ingest_tick

        with instance(self.settings.home) as store:
            context = dg.build_sensor_context(instance=store, cursor=self.cursor)
            result = ingest_tick(context, self.settings, time.time() + LATER)
            self.cursor = result.cursor if isinstance(result, dg.SensorResult) else context.cursor
            for request in (result.dynamic_partitions_requests or ()) if isinstance(result, dg.SensorResult) else ():
                store.add_dynamic_partitions("runs", list(request.partition_keys))
        return result

    def requested(self, result: Any) -> int:
        """Executes what a tick asked for; how many runs that were."""
        from trace_flywheel.orchestration.headless import Headless
        from trace_flywheel.orchestration.jobs import ingest_job
        from trace_flywheel.orchestration.sensors import range_tags

        headless = Headless(self.settings)
        for request in result.run_requests:
            tags = dict(request.tags) if request.partition_key is None else range_tags([request.partition_key])
            headless._run(ingest_job.name, tags)
        return len(result.run_requests)


def timed(label: str, work: Callable[[], Any], told: dict[str, float]) -> Any:
    start, cpu = time.perf_counter(), time.process_time()
    value = work()
    told[label] = round(time.perf_counter() - start, 2)
    print(f"{label:44}{told[label]:9.2f} s wall {time.process_time() - cpu:9.2f} s CPU here", flush=True)
    return value


def measured(home: Path, jobs: Path, runs: int, known: bool = False) -> dict[str, float]:
    """Seconds of each movement by its name."""
    from trace_flywheel.orchestration.sensors import RANGE_KEYS

    told: dict[str, float] = {}
    one = Home(home, jobs)
    if known:
        runs = len(list((jobs / "runs").iterdir()))
    else:
        from_nothing(one, jobs, runs, told)
    for look in ("first look of a process", "again"):
        timed(f"sensor tick, {runs} known folders, {look}", one.tick, told)
    timed("refresh, nothing new", one.refresh, told)
    write_runs(jobs, range(runs, runs + 1))
    timed("refresh, one new run", one.refresh, told)
    keys = [f"{jobs.name}/runs/run-{n:06d}" for n in range(min(runs, RANGE_KEYS))]
    timed(f"backfill of {len(keys)} unchanged runs as one", lambda: backfill(one, keys), told)
    return told


def from_nothing(one: Home, jobs: Path, runs: int, told: dict[str, float]) -> None:
    """Write the folders, have the sensor find and ingest them, publish."""
    timed(f"write {runs} job folders", lambda: write_runs(jobs, range(runs)), told)
    ticks = 0
    while True:
        result = timed(f"tick {ticks + 1}", one.tick, told)
        if not getattr(result, "run_requests", None):
            break
        ticks += 1
        timed(f"  its {len(result.run_requests)} run(s)", lambda result=result: one.requested(result), told)
    assert len(one.lake.sidecars("rollout_index")) == runs
    timed("publish (first refresh)", one.refresh, told)


def backfill(one: Home, keys: list[str]) -> None:
    from trace_flywheel.flow.watch import seen_leniently
    from trace_flywheel.orchestration.headless import Headless

    Headless(one.settings).ingest(keys, seen_leniently(one.settings))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_runs", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--home", type=Path, help="keep the job folders and the home below this folder")
    parser.add_argument("--known", action="store_true", help="the home is there: measure what comes after publication")
    asked = parser.parse_args()
    if asked.known and asked.home is None:
        parser.error("--known needs --home")
    with tempfile.TemporaryDirectory() as name:
        folder = asked.home or Path(name)
        measured(folder / "home", folder / "jobs", asked.runs, asked.known)


if __name__ == "__main__":
    main()
