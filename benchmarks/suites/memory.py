"""Peak memory of `flywheel convert` in every layout and mode, of the commands beside it, and what `--help` costs.

Some modes run a second time where no loop was compiled before: their cache of compiled code is empty.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson

from benchmarks import branches, folders
from benchmarks.corpus import shaped
from benchmarks.measure import Ratio, cost_of
from benchmarks.suites import Asked, Result
from benchmarks.suites.convert import FLYWHEEL

BUDGET = 300.0
"""MB of any process in any mode."""
LAYOUTS = """prime-sft trl-sft kto instruct verl-sft skyrl-sft openenv-episodes openai-ft rl-prompts verifiers atif adp
    messages trl-dpo"""
GROUPED = ["--group-advantage", "grpo", "--group-by", "task,agent,model"]
MODES = (
    ["--row-mode", "exchange"],
    ["--row-mode", "exchange", "--format", "trl-sft"],
    ["--row-mode", "exchange", *GROUPED],
    [*GROUPED, "--reward-vector"],
    ["--include-helpers", "--include-subagents"],
    ["--no-redact"],
)


def measure(asked: Asked) -> Iterator[Result]:
    folder = asked.work / "memory"
    folders.write(folder, "benchflow", shaped(asked.rollouts, seed=asked.seed))
    before = folder / "before.jsonl"
    cost_of([*FLYWHEEL, "convert", folder / "jobs", "--out", before])
    goldens = folder / "goldens.jsonl"
    statement = "Count the distinct customers of the ledger and write that number into the file answer.txt, please."
    goldens.write_bytes(orjson.dumps({"task_id": "golden", "prompt": statement, "answer": "forty two"}) + b"\n")
    table = folder / "before.parquet"
    cost_of([*FLYWHEEL, "convert", folder / "jobs", "--out", table, "--format", "verl-sft"])
    cost_of([*FLYWHEEL, "refresh", "--root", folder / "jobs", "--home", folder / "home"])
    version = (folder / "home" / "datasets" / "sft_dataset" / "latest").read_text().strip()
    (job,) = (folder / "jobs").iterdir()
    listed = [{"rollout_dir": path.name} for path in sorted(job.iterdir()) if path.is_dir()]
    selection = folder / "selection.json"
    selection.write_bytes(orjson.dumps({"job_dir": str(job), "selected": listed}))
    held = ["--goldens", str(goldens), "--dedup-against"]
    modes: list[list[str]] = [["--format", name] for name in LAYOUTS.split()] + [list(mode) for mode in MODES]
    modes += [["--dedup-against", str(before)], ["--dedup-against", str(before), "--row-mode", "exchange"]]
    modes += [["--goldens", str(goldens)], ["--canonical-selection", str(selection)]]
    modes += [["--dedup-against", str(table)], ["--dedup-against", f"dataset:sft_dataset@{version}"]]
    modes += [[*held, str(table), "--format", "verl-sft"], [*held, str(before), *GROUPED, "--reward-vector"]]
    env = {"FLYWHEEL_HOME": str(folder / "home")}
    for mode in modes:
        for workers in (1, 2):
            yield _of_mode(folder, mode, workers, asked.rollouts, env if "dataset:" in mode[-1] else None)
    for mode in (["--format", "trl-dpo"], *(mode for mode in modes if {"--goldens", "--dedup-against"} & {*mode})):
        fresh = {"NUMBA_CACHE_DIR": tempfile.mkdtemp(dir=folder), **env}
        yield _of_mode(folder, mode, 1, asked.rollouts, fresh)
    yield _of_mode(folder, [], 1, asked.rollouts, jobs=before)
    branched = folder / "branched"
    branches.write(branched, asked.rollouts // 4)
    pairs = ["--format", "branch-tree", "--pairs", str(folder / "pairs.jsonl")]
    yield _of_mode(folder, pairs, 1, asked.rollouts, jobs=branched)
    beside: list[list[str | Path]] = [["validate", before], ["token-coverage", job], ["stream", job, "--no-follow"]]
    beside += [["stream", job, "--group-size", "4"]]
    for command in beside:
        cost = cost_of([*FLYWHEEL, *command])
        shown = f"{command[0]} {command[-1]}".replace(str(folder), ".")
        yield _result(shown, max(cost.peak, cost.workers), f"{cost.peak:.0f} MB, {cost.cpu:.2f} s CPU")
    helped = cost_of([*FLYWHEEL, "convert", "--help"])
    yield Result("memory", "convert --help", f"{helped.wall:.2f} s, {helped.cpu:.2f} s CPU, {helped.peak:.0f} MB")


def _of_mode(
    folder: Path,
    mode: list[str],
    workers: int,
    rollouts: int,
    env: Mapping[str, str] | None = None,
    jobs: Path | None = None,
) -> Result:
    out = folder / "out"
    if out.is_dir():
        shutil.rmtree(out)
    out.unlink(missing_ok=True)
    cost = cost_of([*FLYWHEEL, "convert", jobs or folder / "jobs", "--out", out, "--workers", workers, *mode], env)
    shown = " ".join(Path(word).name if word.startswith("/") else word for word in mode)
    cold = ", nothing compiled before" if env and "NUMBA_CACHE_DIR" in env else ""
    shown = f"{jobs.name} {shown}" if jobs else shown
    told = f"{cost.peak:.0f} MB, largest worker {cost.workers:.0f} MB, {cost.cpu:.2f} s CPU"
    return _result(f"{shown}, {workers} worker(s), {rollouts} trials{cold}", max(cost.peak, cost.workers), told)


def _result(name: str, peak: float, told: str) -> Result:
    left = BUDGET / peak
    return Result("memory", name, told, "300 MB", Ratio(left, left, left), 1.0)
