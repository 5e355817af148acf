"""A refresh that is killed, or that finds the disk full, at a moment nobody chose.

What was published before stays readable and keeps its promises; the next refresh ends what was begun, and a home that
went through all of it publishes the same bytes as one that never did.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.harden import home as homes
from trace_flywheel.sample.support import rows
from trace_flywheel.sample.write import write_sample


def killed(seed: int, rounds: int, work: Path) -> Iterator[str]:
    """Faults after each of `rounds` kills, and at the end."""
    rng = random.Random(seed)
    root, home = work / "jobs", work / "home"
    write_sample(root)
    began = time.monotonic()
    homes.refreshed(root, home)
    whole = time.monotonic() - began
    cut = 0
    for number in range(rounds):
        _add_run(root, number)
        process = homes.started(root, home, seed=number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=rng.uniform(0.05, 0.6) * whole)
        cut += process.poll() is None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        yield from (f"kill {number}: {fault}" for fault in homes.broken_promises(root, home))
    if rounds > 2 and not cut:
        yield f"none of {rounds} kills came before the end"
    yield from _as_if_nothing_happened(root, home, work / "undisturbed")


def disk_full(seed: int, rounds: int, work: Path) -> Iterator[str]:
    """Faults after each of `rounds` refreshes that could not write a file above some size, and at the end."""
    rng = random.Random(seed)
    root, home = work / "jobs", work / "home"
    write_sample(root)
    homes.refreshed(root, home)
    for number in range(rounds):
        _add_run(root, number)
        limit = int(10 ** rng.uniform(2, 5.3))
        process = homes.started(root, home, largest_file=limit, seed=number)
        _, told = process.communicate()
        if process.returncode not in (0, 1):
            yield f"limit {limit}: exit code {process.returncode}"
        if process.returncode and not told.strip():
            yield f"limit {limit}: failed in silence"
        yield from (f"limit {limit}: {fault}" for fault in homes.broken_promises(root, home))
    yield from _as_if_nothing_happened(root, home, work / "undisturbed")


def same_bytes(seed: int, rounds: int, work: Path) -> Iterator[str]:
    """Faults of `rounds` homes fed from shuffled copies, with other hash seeds and numbers of processes."""
    rng = random.Random(seed)
    write_sample(work / "first" / "jobs")
    homes.refreshed(work / "first" / "jobs", work / "first" / "home", workers=1)
    expected = homes.newest(work / "first" / "home")
    for number in range(rounds):
        place = work / f"copy {number}"
        homes.shuffled_copy(work / "first" / "jobs", place / "jobs", rng)
        homes.refreshed(place / "jobs", place / "home", seed=rng.randrange(2**32), workers=rng.randint(1, 4))
        yield from (f"copy {number}: {name}" for name in _other(expected, homes.newest(place / "home")))


def _as_if_nothing_happened(root: Path, home: Path, other: Path) -> Iterator[str]:
    homes.refreshed(root, home)
    yield from (f"in the end: {fault}" for fault in homes.broken_promises(root, home))
    homes.refreshed(root, other)
    yield from (
        f"in the end: {name} is not what a home without trouble has"
        for name in _other(homes.newest(other), homes.newest(home))
    )


def _other(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    return sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))


def _add_run(root: Path, number: int) -> None:
    """One more eval run, so that a refresh has something to do."""
    run_id = f"extra-{number}"
    folder = root / "support" / "runs" / run_id
    folder.mkdir(parents=True)
    results = [{**row, "trace_id": f"{row['trace_id']}-{number}", "run_id": run_id} for row in rows(run_id)]
    (folder / "results.json").write_text(json.dumps({"run_id": run_id, "results": results}))
