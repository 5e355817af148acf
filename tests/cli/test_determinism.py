"""The same runs give the same bytes: whatever the order of files, clocks, hash seeds, processes and places."""

import hashlib
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from trace_flywheel.sample.write import write_sample

CHECKOUT = Path(__file__).parents[2]
# A pool from the first task on; small inputs would stay in the process otherwise.
REFRESH = """
import sys
from trace_flywheel.cli.main import main
from trace_flywheel.flow import workers
workers.PATIENCE = 0.0
sys.exit(main(["refresh", "--root", sys.argv[1], "--home", sys.argv[2]]))
"""


def shuffled_copy(source: Path, target: Path, seed: int) -> None:
    """The same files, created in another order and at other times."""
    files = sorted(path for path in source.rglob("*") if path.is_file())
    random.Random(seed).shuffle(files)
    for number, path in enumerate(files):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        os.utime(copy, (1_700_000_000 + number, 1_700_000_000 + number))


def published(root: Path, home: Path, workers: int, hash_seed: int) -> dict[str, str]:
    """Digests of all files below `datasets`, by path."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "FLYWHEEL_INGEST__WORKERS": str(workers)}
    command = [sys.executable, "-c", REFRESH, str(root), str(home)]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folder = home / "datasets"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_order_times_seeds_workers_and_places_change_no_byte(tmp_path: Path) -> None:
    write_sample(tmp_path / "one" / "jobs")
    shuffled_copy(tmp_path / "one" / "jobs", tmp_path / "another place" / "jobs", seed=7)
    first = published(tmp_path / "one" / "jobs", tmp_path / "home", workers=1, hash_seed=1)
    second = published(tmp_path / "another place" / "jobs", tmp_path / "b" / ".flywheel", workers=2, hash_seed=2)
    assert len(first) > 20
    assert first == second
