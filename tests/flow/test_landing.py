"""Runs of a step land in batches: few waits for the disk, and no moment at which a pointer names what may be lost."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.flow.conftest import Flow, group, write_runs
from trace_flywheel.flow import steps
from trace_flywheel.flow.ingest_tasks import GRADED, INDEX, REDACTED
from trace_flywheel.lake import files, landing
from trace_flywheel.lake.store import Lake

MakeFlow = Callable[..., Flow]
ROOT = Path(__file__).parents[2]
STEPS = (GRADED, REDACTED, INDEX)


def some(number: int, seed: int = 0) -> dict[str, list[dict[str, Any]]]:
    return {f"r{n:02d}": group(f"t{n}", (1.0, 0.0), seed + 10 * n) for n in range(number)}


def test_fifty_runs_wait_for_the_disk_as_often_as_one(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "BATCH_SECONDS", 3600.0)
    waits: list[int] = []
    syncs: list[int] = []
    real, fsync = files.sync, os.fsync

    def sync(paths: Any) -> None:
        waiting = list(paths)
        waits.append(len(waiting))
        real(waiting)

    def counted(handle: int) -> None:
        syncs.append(handle)
        fsync(handle)

    monkeypatch.setattr(landing, "sync", sync)
    monkeypatch.setattr(os, "fsync", counted)
    one = flow(some(50), workers=1)
    one.ingest()
    assert len(waits) == 9  # three of each step
    # Of a run and step: parts, drops, pointer, generation, twice its folder; findings once a run. Beside them the
    # folders above, and what a home writes once.
    assert 50 * 19 <= len(syncs) <= 50 * 19 + 20
    assert one.ingest() == ()
    assert len(waits) == 9  # nothing new, nothing waited for


def test_a_batch_is_cut_by_its_size_and_by_its_age(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    landed: list[int] = []
    real = Lake.land

    def land(self: Lake, staged: Sequence[landing.Staged]) -> Any:
        landed.append(len(staged))
        return real(self, staged)

    monkeypatch.setattr(Lake, "land", land)
    monkeypatch.setattr(steps, "BATCH_RUNS", 4)
    monkeypatch.setattr(steps, "BATCH_SECONDS", 3600.0)
    flow(some(10), name="by size", workers=1).ingest()
    assert landed == [4, 4, 2] * 3
    landed.clear()
    monkeypatch.setattr(steps, "BATCH_SECONDS", -1.0)
    flow(some(10), name="by age", workers=1).ingest()
    assert landed == [1] * 30


def test_how_runs_are_batched_changes_no_byte(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    together, alone = flow(some(5), name="together", workers=1), flow(some(5), name="alone", workers=1)
    together.ingest()
    monkeypatch.setattr(steps, "BATCH_RUNS", 1)
    alone.ingest()
    assert lake_bytes(together.lake) == lake_bytes(alone.lake)


def test_a_pointer_changes_when_all_it_names_is_durable(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a loss of power leaves is what was synced: so each pointer is held against that at its moment."""
    one = flow(some(3), workers=1)
    one.ingest()
    durable: set[tuple[int, int]] = set()
    """(inode, time of its last change) of all that was synced."""
    pointed: list[Path] = []
    removed: list[Path] = []
    fsync, replace, keep_only = os.fsync, os.replace, landing.keep_only

    def state(path: Path) -> tuple[int, int]:
        found = path.stat()
        return found.st_ino, found.st_mtime_ns

    def synced(handle: int) -> None:
        fsync(handle)
        found = os.fstat(handle)
        durable.add((found.st_ino, found.st_mtime_ns))

    def replaced(source: Any, target: Any) -> None:
        source, target = Path(source), Path(target)
        if target.name == landing.POINTER:
            generation = target.parent / json.loads(source.read_text())["generation"]
            named = [source, generation, *generation.iterdir(), target.parent, target.parent.parent]
            assert [path for path in named if state(path) not in durable] == []
            pointed.append(target)
        replace(source, target)

    def before_the_old_goes(base: Path, name: str) -> None:
        assert state(base) in durable
        keep_only(base, name)
        removed.append(base)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(landing, "keep_only", before_the_old_goes)
    write_runs(one.root, some(3, seed=7))
    one.ingest()
    assert len(pointed) == len(removed) == 9


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.flow.conftest import Flow
from trace_flywheel.lake import landing

root, home, name, number = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
owner = Path if name == "replace" else landing
real, seen = getattr(owner, name), 0

def counted(*given):
    global seen
    if name != "replace" or Path(given[1]).name == "sidecar.json":
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)
    return real(*given)

setattr(owner, name, counted)
Flow(root, home, workers=1).ingest()
"""


@pytest.mark.parametrize(
    ("name", "number", "of_the_new"),
    [
        ("sync", 1, {GRADED: 0, REDACTED: 0, INDEX: 0}),  # everything of a batch is written, nothing synced
        ("move", 2, {GRADED: 0, REDACTED: 0, INDEX: 0}),  # one generation has its name, two have not
        ("replace", 2, {GRADED: 1, REDACTED: 0, INDEX: 0}),  # one pointer changed, two have not
        ("sync", 5, {GRADED: 3, REDACTED: 0, INDEX: 0}),  # the next step's generations have their names
        ("replace", 8, {GRADED: 3, REDACTED: 3, INDEX: 1}),
    ],
)
def test_a_kill_within_a_batch_leaves_whole_partitions(
    flow: MakeFlow, name: str, number: int, of_the_new: dict[str, int]
) -> None:
    one, other = flow(some(3), workers=1), flow(some(3), name="other", workers=1)
    one.ingest()
    before = {step: {s.run_id: s.content_digest for s in one.lake.sidecars(step)} for step in STEPS}
    write_runs(one.root, some(3, seed=7))
    write_runs(other.root, some(3, seed=7))
    other.ingest()
    asked = [sys.executable, "-c", KILLED, str(one.root), str(one.settings.home), name, str(number)]
    done = subprocess.run(
        asked, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=120
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    changed = dict.fromkeys(STEPS, 0)
    for step in STEPS:
        for sidecar in one.lake.sidecars(step):
            for part in sidecar.parts:
                assert hashlib.sha256(one.lake.part_path(sidecar, part).read_bytes()).hexdigest() == part.sha256
            one.lake.drops(sidecar)
            changed[step] += before[step][sidecar.run_id] != sidecar.content_digest
    assert changed == of_the_new
    one.ingest()
    assert one.pending().todo == ()
    assert lake_bytes(one.lake) == lake_bytes(other.lake)


def lake_bytes(lake: Lake) -> dict[str, bytes]:
    """The pointers and all that they name. A killed writer may leave a generation besides that nothing names."""
    pointers = [lake.folder(step, s.run_id) / landing.POINTER for step in STEPS for s in lake.sidecars(step)]
    named = [lake.generation_folder(sidecar) for step in STEPS for sidecar in lake.sidecars(step)]
    return {
        p.relative_to(lake.root).as_posix(): p.read_bytes()
        for p in (*pointers, *(f for g in named for f in g.iterdir()))
    }
