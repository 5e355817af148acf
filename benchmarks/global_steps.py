"""The decisions over all runs, alone: `python -m benchmarks.global_steps --rollouts 1000000`.

Writes a lake whose index is synthetic (no text): runs of 1,000 rollouts in the skewed shape of agent work, every task
tried 500 times. The prompt of a task is shared by its attempts; of the 100 shingles of an answer 40 are the task's, and
every tenth answer is near to the other tenth ones of its task. Then, in one fresh process, the index is loaded and
every dataset decided; seconds, CPU and the peak of memory are told after each step. Nothing is published.
"""

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trace_flywheel.curation.sketch import sketch
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.ingest_tasks import INDEX, REDACTED
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.lake.index import INDEX_SCHEMA
from trace_flywheel.lake.parts import write_table
from trace_flywheel.lake.store import Lake
from trace_flywheel.settings import load_settings

ATTEMPTS, RUN = 500, 1000
PROMPT, SHARED, OWN = 60, 40, 60
"""Shingles of a prompt; of an attempt's answer those of its task, and its own."""
TURNS = 20


@cache
def of_task(task: int, part: int) -> np.ndarray:
    """Shingles that attempts at a task share: of the prompt, of the answer, of answers that are near to each other."""
    size = (PROMPT, SHARED, OWN - 4)[part]
    return np.random.default_rng(task * 3 + part).integers(2**32, size=size)


def index_of(run: int, rollouts: int, tasks: int) -> pa.Table:
    """The index table of a run; attempt n of all is of task n mod tasks."""
    rng = np.random.default_rng(run)
    n = min(RUN, rollouts - run * RUN)
    task = (np.arange(n) + run * RUN) % tasks
    prompts, shared, twins = (np.stack([of_task(t, part) for t in task.tolist()]) for part in range(3))
    own = rng.integers(2**32, size=(n, OWN))
    near = np.arange(n) % 10 == 9
    own[near, : OWN - 4] = twins[near]
    answers = np.concatenate([shared, own], axis=1)
    columns: dict[str, Any] = {}
    numbers = np.arange(n) + run * RUN
    passing = rng.random(n) < 0.4
    hashes = [f"{v:032x}" for v in (numbers.astype(object) * 0x9E3779B97F4A7C15F39CC0605CEDC835) % (1 << 128)]
    lists = {"prompt_shingles": prompts, "supervised_shingles": answers}
    for name, values in lists.items():
        ordered = np.sort(values.astype(np.uint32), axis=1)
        columns[name] = list(ordered)
        sketches = [sketch(row).astype("<u4").tobytes() for row in ordered]
        columns[name.replace("shingles", "sketch")] = sketches
    messages = np.concatenate([(task[:, None] * 7 + 1), rng.integers(2**62, size=(n, TURNS - 1))], axis=1)
    columns |= {
        "run_id": [f"jobs/run-{run:05d}"] * n,
        "trace_id": [f"t{v:07d}" for v in numbers.tolist()],
        "task_id": [f"task-{t:05d}" for t in task.tolist()],
        "part": [0] * n,
        "position": list(range(n)),
        "agent": ["opencode"] * n,
        "model": ["deepseek-v4"] * n,
        "source_format": ["benchflow"] * n,
        "source_path": [
            f"run-{run:05d}/task-{t:05d}__{v:x}" for t, v in zip(task.tolist(), numbers.tolist(), strict=True)
        ],
        "source_sha256": [h * 2 for h in hashes],
        "started_at": ["2026-11-04T17:49:57Z"] * n,
        "finished_at": ["2026-11-04T17:59:57Z"] * n,
        "attempt_hash": hashes,
        "content_hash": hashes,
        "exact_hash": hashes,
        "verdict": np.where(passing, "pass", "fail").tolist(),
        "reward": passing.astype(float).tolist(),
        "grader": ["benchflow-verifier"] * n,
        "context_hash": [f"{t:032x}" for t in task.tolist()],
        "roles": ["u" + "at" * ((TURNS - 2) // 2) + "a"] * n,
        "message_hashes": list(messages),
        "message_norms": list(messages),
    }
    arrays = []
    for field in INDEX_SCHEMA:
        values = columns.get(field.name)
        if values is None:
            absent: Any = False if pa.types.is_boolean(field.type) else 0 if pa.types.is_integer(field.type) else None
            values = [absent] * n
        arrays.append(pa.array(values, type=field.type))
    return pa.table(arrays, schema=INDEX_SCHEMA)


def write_lake(home: Path, rollouts: int) -> None:
    lake, tasks = Lake(home), max(1, rollouts // ATTEMPTS)
    for run in range((rollouts + RUN - 1) // RUN):
        table, of = index_of(run, rollouts, tasks), {}
        for asset in (REDACTED, INDEX):
            with lake.generation(asset, name := f"jobs/run-{run:05d}") as folder:
                parts = [write_table(folder / "part-00000.parquet", table if asset == INDEX else table.slice(0, 0))]
                staged = lake.stage(
                    folder,
                    asset,
                    name,
                    parts=parts,
                    drops=[],
                    entered=parts[0].rows,
                    inputs_digest="",
                    source_fingerprint="",
                    facts=of,
                )
                lake.land([staged])
                of = {"of": staged.sidecar.content_digest}


def steps(home: Path) -> list[dict[str, Any]]:
    """What each step takes, in this process."""
    settings = load_settings(home=home)
    curation = Curation(Lake(home), settings, SideInputs())
    told: list[dict[str, Any]] = []

    def step(name: str, work: Callable[[], Any], count: Callable[[Any], int]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        took = {"seconds": round(time.perf_counter() - wall, 2), "cpu_seconds": round(time.process_time() - cpu, 2)}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        told.append({"step": name, **took, "peak_gb": round(peak, 2), "rows": count(result)})
        print(json.dumps(told[-1]), flush=True)

    def decided(kind: Any) -> Callable[[], Any]:
        from trace_flywheel.flow.decided import decided as decide

        return lambda: decide(curation, kind, None)

    def kept(made: Any) -> int:
        return len(made.kept)

    step("load the index", lambda: curation.index, lambda index: len(index.frame))
    step("attempts and groups", lambda: curation.attempts, lambda found: int(found.members.sum()))
    for kind in ("sft", "pair", "kto", "rl", "prompt"):
        step(kind, decided(kind), kept)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.global_steps", description=__doc__.splitlines()[0])
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="keep the lake here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        home: Path = given.folder or Path(name)
        if not (home / "lake").exists():
            write_lake(home, given.rollouts)
        size = sum(p.stat().st_size for p in (home / "lake" / INDEX).rglob("*.parquet")) / 1e6
        print(json.dumps({"rollouts": given.rollouts, "index_mb": round(size)}))
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            told = pool.apply(steps, (home,))
        total = {key: round(sum(one[key] for one in told), 1) for key in ("seconds", "cpu_seconds")}
        print(json.dumps({"all": total, "peak_gb": max(one["peak_gb"] for one in told)}))


if __name__ == "__main__":
    main()
