"""`flywheel convert` against `bench train convert` on one BenchFlow job, redaction on, interleaved: issue 3's gate."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import folders, rivals
from benchmarks.corpus import shaped
from benchmarks.measure import Cost, cost_of, interleaved, median, ratio
from benchmarks.suites import Asked, Result

FLYWHEEL = (sys.executable, "-m", "trace_flywheel.cli.main")
MODES = {
    "prime-sft": (["--format", "prime-sft"], 1),
    "trl-sft": (["--format", "trl-sft"], 1),
    "prime-sft, a row a call": (["--format", "prime-sft", "--row-mode", "exchange"], 10),
}
"""Flags, and by how much the job is smaller: `bench` takes 0.2 s of CPU a trial where each call is a row."""
GATE = 10.0
ENOUGH = 2_000
"""Trials of the gate; below, start-up decides."""


def measure(asked: Asked) -> Iterator[Result]:
    programs = rivals.made(rivals.BENCHFLOW, asked.python312) if asked.rivals else None
    for name, (flags, smaller) in MODES.items():
        trials = max(1, asked.rollouts // smaller)
        folder = asked.work / f"job-{trials}"
        jobs = folder / "jobs"
        if not jobs.is_dir():
            folders.write(folder, "benchflow", shaped(trials, seed=asked.seed))
        size = sum(file.stat().st_size for file in jobs.rglob("*.jsonl")) / 1e6
        contestants = {
            "1": partial(flywheel, jobs, asked.work / "own.jsonl", [*flags, "--workers", "1"]),
            "2": partial(flywheel, jobs, asked.work / "own2.jsonl", [*flags, "--workers", "2"]),
        }
        if programs is not None:
            contestants["bench"] = partial(bench, programs, jobs, asked.work / "bench.jsonl", flags)
        costs = interleaved(contestants, asked.rounds)
        same = (asked.work / "own.jsonl").read_bytes() == (asked.work / "own2.jsonl").read_bytes()
        if not same:
            raise SystemExit(f"convert {name}: one and two workers wrote different bytes")
        own = costs["1"]
        told = f"{median(own, 'cpu'):.2f} s CPU, {median(own, 'wall'):.2f} s, {median(own, 'peak'):.0f} MB"
        what = f"{name}, {trials} trials, {size:.0f} MB"
        if programs is None:
            yield Result("convert", what, told, "no Python 3.12 for bench train convert" if asked.rivals else "")
            continue
        rival = costs["bench"]
        theirs = f"{median(rival, 'cpu'):.2f} s CPU, {median(rival, 'wall'):.2f} s, {median(rival, 'peak'):.0f} MB"
        gate = GATE if trials >= ENOUGH else None
        for measured, by in (("CPU", "cpu"), ("wall", "wall")):
            better = ratio([getattr(c, by) for c in rival], [getattr(c, by) for c in own])
            yield Result("convert", f"{what}: {measured}, 1 worker", told, theirs, better, gate)
        two = costs["2"]
        better = ratio([c.wall for c in rival], [c.wall for c in two])
        yield Result("convert", f"{what}: wall, 2 workers", f"{median(two, 'wall'):.2f} s", theirs, better, gate)


def flywheel(jobs: Path, out: Path, flags: list[str]) -> Cost:
    return cost_of([*FLYWHEEL, "convert", jobs, "--out", out, *flags])


def bench(programs: Path, jobs: Path, out: Path, flags: list[str]) -> Cost:
    return cost_of([programs / "bench", "train", "convert", jobs, "--out", out, *flags])
