"""A home fed by `flywheel refresh` in processes of their own, and what may be said of it from outside at any moment."""

import hashlib
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow.audit import audit, shown
from trace_flywheel.flow.crew import Crew
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.watch import side_inputs_now
from trace_flywheel.lake.dataset import find_version, names
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.settings import Settings

CHECKOUT = Path(__file__).parents[2]
# A pool from the first task on; small inputs would stay in the process otherwise. The limit stands for a full disk.
REFRESH = """
import resource, sys
from trace_flywheel.cli.main import main
from trace_flywheel.flow import workers
workers.PATIENCE = 0.0
if sys.argv[3] != "0":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
sys.exit(main(["refresh", "--root", sys.argv[1], "--home", sys.argv[2]]))
"""


def started(root: Path, home: Path, *, largest_file: int = 0, seed: int = 0, workers: int = 2) -> subprocess.Popen[str]:
    """A refresh in a group of its own; no file may grow above `largest_file` bytes where that is not 0."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "FLYWHEEL_INGEST__WORKERS": str(workers)}
    command = [sys.executable, "-c", REFRESH, str(root), str(home), str(largest_file)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=CHECKOUT, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def refreshed(root: Path, home: Path, **values: int) -> None:
    """A refresh that must succeed."""
    process = started(root, home, **values)
    _, told = process.communicate()
    if process.returncode:
        raise AssertionError(f"refresh ended with {process.returncode}: {told[-2000:]}")


def broken_promises(root: Path, home: Path) -> list[str]:
    """What the newest version of every dataset does not keep, from its bytes; nothing where there is no dataset yet."""
    settings = Settings(home=home, roots=(root,))
    holdout = Holdout(side_inputs_now(settings).goldens, settings.goldens.overlap)
    found = []
    for name in names(home):
        if not (home / "datasets" / name / "latest").exists():
            continue  # its first version was on the way
        try:
            faults = audit(find_version(home, name), Crew(holdout, 1), policy_of(settings))
        except (FlywheelError, OSError) as error:
            found.append(f"{name}: {error}")
            continue
        found += [f"{name}: {promise}: {shown(said)}" for promise, said in faults.items() if said]
    return found


def newest(home: Path) -> dict[str, str]:
    """Digests of all files of the newest versions, by dataset and path."""
    digests = {}
    for name in names(home):
        folder = find_version(home, name).path
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                digests[f"{name}/{path.relative_to(folder).as_posix()}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return digests


def shuffled_copy(source: Path, target: Path, rng: random.Random) -> None:
    """The same files, created in another order and at other times."""
    files = sorted(path for path in source.rglob("*") if path.is_file())
    rng.shuffle(files)
    for number, path in enumerate(files):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        os.utime(copy, (1_700_000_000 + number, 1_700_000_000 + number))
