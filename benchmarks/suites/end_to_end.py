"""Job folders to published datasets, Dagster and Parquet included, against the straightforward build: issue 7's gate.

The straightforward build gets a sample, because it takes half a second a rollout, and its time is extrapolated in line.
Rates are compared: MB of source a CPU second, the product's start, Dagster and Parquet included. Both read the same
bytes. What gates is one chain against one chain (`one_dataset`): redacted, deduplicated, grouped, mixed, published
JSONL; the straightforward build does less of each (see `rivals/straightforward.py`) and no mix. What `flywheel refresh`
takes for its six datasets in all layouts is told beside.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import orjson

from benchmarks import folders, rivals
from benchmarks.corpus import shaped
from benchmarks.measure import Cost, cost_of, interleaved, median, ratio
from benchmarks.suites import Asked, Result
from benchmarks.suites.convert import FLYWHEEL

RIVAL = Path(rivals.__file__).parent / "straightforward.py"
GATE, CORES_GATE = 80.0, 1.7
ENOUGH = 2_000
"""Rollouts from which on the gate is asked: start-up (imports, Dagster) takes a quarter of the time there."""


def measure(asked: Asked) -> Iterator[Result]:
    programs = rivals.made(rivals.SKETCHES) if asked.rivals else None
    patterns = asked.work / "patterns.json"
    write_patterns(patterns)
    for format in ("eval", "benchflow"):
        folder = asked.work / f"e2e-{format}"
        size = folders.write(folder, format, shaped(asked.rollouts, seed=asked.seed))
        contestants = {
            "1": partial(refresh, folder / "jobs", asked.work / "home1", 1),
            "2": partial(refresh, folder / "jobs", asked.work / "home2", 2),
        }
        if programs is not None:
            command = [programs / "python", RIVAL, folder / "jobs", patterns, asked.work / "plain.jsonl"]
            contestants["plain"] = partial(cost_of, [*command, asked.sample])
            contestants["one"] = partial(one_dataset, folder / "jobs", asked.work / "home3")
        costs = interleaved(contestants, asked.rounds)
        yield from _compared(asked, f"{format}, {asked.rollouts} rollouts, {size:.0f} MB", size, costs)
        yield _secrets_left(folder, asked.work / "home1")
        if _datasets(asked.work / "home1") != _datasets(asked.work / "home2"):
            raise SystemExit(f"{format}: one and two workers published different bytes")


def _compared(asked: Asked, what: str, size: float, costs: dict[str, list[Cost]]) -> Iterator[Result]:
    one, two = costs["1"], costs["2"]
    rate = size / median(one, "cpu")
    told = f"{rate:.1f} MB a CPU second, {median(one, 'wall'):.1f} s, {median(one, 'peak'):.0f} MB"
    if "plain" in costs:
        said = [json.loads(cost.out) for cost in costs["plain"]]
        plain = [size / whole(s, size) for s in said]
        better = ratio([size / cost.cpu for cost in one], plain)
        theirs = f"{plain[0]:.2f} MB a CPU second ({said[0]['rollouts']} rollouts)"
        yield Result("end-to-end", f"{what}: six datasets in all layouts", told, theirs, better, None)
        alone = costs["one"]
        rate = size / median(alone, "cpu")
        told_alone = f"{rate:.1f} MB a CPU second, {median(alone, 'wall'):.1f} s, {median(alone, 'workers'):.0f} MB"
        better = ratio([size / cost.cpu for cost in alone], plain)
        gate = GATE if asked.rollouts >= ENOUGH and what.startswith("eval") else None
        yield Result("end-to-end", f"{what}: one chain", told_alone, theirs, better, gate)
    cores = ratio([cost.wall for cost in one], [cost.wall for cost in two])
    shown = f"{median(two, 'wall'):.1f} s, worker {median(two, 'workers'):.0f} MB, main {median(two, 'peak'):.0f} MB"
    yield Result("end-to-end", f"{what}: two workers for one", shown, told, cores, None)


def whole(said: dict[str, float], size: float) -> float:
    """CPU seconds that the straightforward build takes for `size` MB: what it takes once, and the sample's in line."""
    return said["setup"] + (said["cpu"] - said["setup"]) * size * 1e6 / said["bytes"]


def refresh(jobs: Path, home: Path, workers: int) -> Cost:
    """From nothing to everything."""
    shutil.rmtree(home, ignore_errors=True)
    env = {"FLYWHEEL_INGEST__WORKERS": str(workers)}
    return cost_of([*FLYWHEEL, "refresh", "--root", jobs, "--home", home, "--json"], env)


def one_dataset(jobs: Path, home: Path) -> Cost:
    """From nothing to one dataset and its mix."""
    shutil.rmtree(home, ignore_errors=True)
    return cost_of([sys.executable, "-m", "benchmarks.one_dataset", jobs, home], {"FLYWHEEL_INGEST__WORKERS": "1"})


def write_patterns(path: Path) -> None:
    """The product's rules as plain patterns, for `re`."""
    code = (
        "import json, sys\nfrom trace_flywheel.redaction.rules import rules_of\n"
        "json.dump([[r.name, r.pattern()] for r in rules_of('standard')], open(sys.argv[1], 'w'))"
    )
    cost_of([sys.executable, "-c", code, path])


def _secrets_left(folder: Path, home: Path) -> Result:
    published = b"".join(path.read_bytes() for path in sorted((home / "datasets").rglob("*.jsonl")))
    known = [orjson.loads(line) for line in (folder / "truth.jsonl").read_bytes().splitlines()]
    secrets = {one["secret"] for one in known if one["secret"]}
    left = sum(secret.encode() in published for secret in secrets)
    if left:
        raise SystemExit(f"{left} of {len(secrets)} planted secrets stand in published rows")
    return Result("end-to-end", "planted secrets in published rows", f"0 of {len(secrets)}")


def _datasets(home: Path) -> dict[str, bytes]:
    files = sorted(path for path in (home / "datasets").rglob("*") if path.is_file() and path.suffix == ".jsonl")
    return {path.relative_to(home).as_posix(): path.read_bytes() for path in files}
