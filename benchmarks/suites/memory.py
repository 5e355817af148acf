"""Peak memory of `flywheel convert` in every layout and mode, of the commands beside it, and what `--help` costs.

Two of the modes compile loops where none was compiled before: their cache of compiled code is empty.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson

from benchmarks import folders
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
    modes: list[list[str]] = [["--format", name] for name in LAYOUTS.split()] + [list(mode) for mode in MODES]
    modes += [["--dedup-against", str(before)], ["--dedup-against", str(before), "--row-mode", "exchange"]]
    modes += [["--goldens", str(goldens)]]
    for mode in modes:
        for workers in (1, 2):
            yield _of_mode(folder, mode, workers, asked.rollouts)
    for mode in (["--format", "trl-dpo"], ["--dedup-against", str(before)]):
        fresh = {"NUMBA_CACHE_DIR": tempfile.mkdtemp(dir=folder)}
        yield _of_mode(folder, mode, 1, asked.rollouts, fresh)
    (job,) = (folder / "jobs").iterdir()
    beside: list[list[str | Path]] = [["validate", before], ["token-coverage", job], ["stream", job, "--no-follow"]]
    for command in beside:
        cost = cost_of([*FLYWHEEL, *command])
        yield _result(str(command[0]), max(cost.peak, cost.workers), f"{cost.peak:.0f} MB, {cost.cpu:.2f} s CPU")
    helped = cost_of([*FLYWHEEL, "convert", "--help"])
    yield Result("memory", "convert --help", f"{helped.wall:.2f} s, {helped.cpu:.2f} s CPU, {helped.peak:.0f} MB")


def _of_mode(
    folder: Path, mode: list[str], workers: int, rollouts: int, env: Mapping[str, str] | None = None
) -> Result:
    out = folder / "out"
    if out.is_dir():
        shutil.rmtree(out)
    out.unlink(missing_ok=True)
    cost = cost_of([*FLYWHEEL, "convert", folder / "jobs", "--out", out, "--workers", workers, *mode], env)
    shown = " ".join(Path(word).name if word.startswith("/") else word for word in mode)
    cold = ", nothing compiled before" if env else ""
    told = f"{cost.peak:.0f} MB, largest worker {cost.workers:.0f} MB, {cost.cpu:.2f} s CPU"
    return _result(f"{shown}, {workers} worker(s), {rollouts} trials{cold}", max(cost.peak, cost.workers), told)


def _result(name: str, peak: float, told: str) -> Result:
    left = BUDGET / peak
    return Result("memory", name, told, "300 MB", Ratio(left, left, left), 1.0)
