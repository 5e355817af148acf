"""Ctrl-C and a scheduler's SIGTERM in the middle of a step: one exit code, no word of Dagster's, nothing half made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trace_flywheel.cli.main import main
from trace_flywheel.sample.write import write_sample

ROOT = Path(__file__).parents[2]
INTERRUPTED = """
import os, signal, sys
from trace_flywheel.cli.main import main
from trace_flywheel.flow import apart, ingest
make, read = apart.make, ingest.all_of
def struck():
    # A terminal sends Ctrl-C to all processes of it, a scheduler its signal to this one.
    (os.killpg if sys.argv[1] == "SIGINT" else os.kill)(os.getpid(), getattr(signal, sys.argv[1]))
def interrupted(*arguments):
    struck()
    return (read if sys.argv[2] == "ingest" else make)(*arguments)
def after(*arguments):
    yield from execute(*arguments)
    struck()
def between(*_):
    struck()
    with raise_execution_interrupts():
        yield from ()
if sys.argv[2] in ("between", "after"):
    from dagster._core.executor.in_process import InProcessExecutor
    from dagster._core.errors import raise_execution_interrupts
    execute = InProcessExecutor.execute
    InProcessExecutor.execute = globals()[sys.argv[2]]
elif sys.argv[2] == "ingest":
    ingest.all_of = interrupted
else:
    apart.make = interrupted
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.parametrize("where", ["ingest", "publish", "between", "after"])
@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
def test_an_interrupted_refresh_says_so_by_its_exit_code_alone(signal: str, where: str, tmp_path: Path) -> None:
    write_sample(tmp_path / "jobs")
    words = ["refresh", "--root", str(tmp_path / "jobs"), "--home", str(tmp_path / "home")]
    command = [sys.executable, "-c", INTERRUPTED, signal, where, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, start_new_session=True)
    assert done.returncode == 130, done.stderr
    assert not [line for line in done.stderr.splitlines() if not line.startswith(("ingesting", "curating"))]
    assert main(words) == 0
    assert len(list((tmp_path / "home" / "datasets").iterdir())) == 6
