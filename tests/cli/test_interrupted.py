"""Ctrl-C, a scheduler's SIGTERM, a terminal that closes: one exit code, no word of Dagster's, nothing half made."""

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
from trace_flywheel.flow import apart, ingest, watch
how, where = sys.argv[1:3]
del sys.argv[1:3]
make, look, read = apart.make, watch.watch, ingest.all_of
def struck():
    # A terminal sends Ctrl-C to all processes of it, a scheduler its signal to this one.
    (os.killpg if how == "SIGINT" else os.kill)(os.getpid(), getattr(signal, how))
def interrupted(*arguments):
    struck()
    return {"ingest": read, "look": look, "publish": make}[where](*arguments)
def after(*arguments):
    yield from execute(*arguments)
    struck()
def between(*_):
    struck()
    with raise_execution_interrupts():
        yield from ()
if where in ("between", "after"):
    from dagster._core.executor.in_process import InProcessExecutor
    from dagster._core.errors import raise_execution_interrupts
    execute = InProcessExecutor.execute
    InProcessExecutor.execute = globals()[where]
elif where == "ingest":
    ingest.all_of = interrupted
elif where == "look":
    watch.watch = interrupted
else:
    apart.make = interrupted
sys.exit(main())
"""


@pytest.mark.parametrize("where", ["look", "ingest", "publish", "between", "after"])
@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM", "SIGHUP"])
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
