"""Whether any step is slower than linear: refreshes of growing corpora, CPU and memory a rollout; also the skewed shape
of agent work, few tasks with many attempts each, where sketches propose many pairs."""

import json
from collections.abc import Iterator

from benchmarks import folders
from benchmarks.corpus import Shape, shaped
from benchmarks.measure import Ratio
from benchmarks.suites import Asked, Result
from benchmarks.suites.end_to_end import refresh

GATE = 1 / 1.5
"""CPU a rollout may grow by half over a decade: start-up weighs on the small one, so it should shrink."""
SKEW = 2.5
"""Attempts for each task in the skewed shape (200 tasks x 500 attempts)."""


def measure(asked: Asked) -> Iterator[Result]:
    small: float | None = None
    peak = 0.0
    sizes = (asked.rollouts, 10 * asked.rollouts)
    shapes: list[tuple[str, Shape]] = [(f"{n} rollouts", shaped(n, seed=asked.seed)) for n in sizes]
    tasks = max(1, round((sizes[1] / SKEW) ** 0.5))
    skewed = Shape(tasks=tasks, attempts=round(SKEW * tasks), seed=asked.seed)
    shapes.append((f"skewed: {tasks} tasks x {skewed.attempts} attempts", skewed))
    for name, shape in shapes:
        folder = asked.work / f"scaling-{shape.rollouts}-{shape.tasks}"
        size = folders.write(folder, "eval", shape)
        cost = refresh(folder / "jobs", asked.work / "home", 1)
        each = cost.cpu / shape.rollouts
        rows = {name: made["rows"] for name, made in json.loads(cost.out)["datasets"].items()}
        told = f"{1000 * each:.2f} ms CPU a rollout, {size / cost.cpu:.1f} MB/s, {cost.peak:.0f} MB; rows {rows}"
        if small is None:
            small, peak = each, cost.peak
            yield Result("scaling", name, told)
            continue
        better = small / each
        grown = (cost.peak - peak) * 1024 / (shape.rollouts - asked.rollouts)
        rival = f"{1000 * small:.2f} ms at {asked.rollouts} rollouts; {grown:.1f} KB more a rollout"
        yield Result("scaling", name, told, rival, Ratio(better, better, better), GATE)
