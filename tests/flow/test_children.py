"""Ctrl-C, which a terminal sends to every process of it: what works for another one says nothing of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trace_flywheel.flow import children

ROOT = Path(__file__).parents[2]
CALLER = """
import os, signal, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from trace_flywheel.flow.beside import Beside
from trace_flywheel.flow.fork_server import start_ahead
from trace_flywheel.flow.workers import run_tasks

def struck():
    os.killpg(os.getpid(), signal.SIGINT)
    time.sleep(60)

def idle(home):
    Beside(home).call(os.getpid)
    struck()

def starting(home):
    start_ahead("loads_for_a_while")
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    Beside(home).start(os.getpid)

def at_work(home):
    Beside(home).call(works, str(home), os.getpid())

def works(home, caller):
    try:
        os.killpg(caller, signal.SIGINT)
        time.sleep(60)
    finally:
        Path(home, "taken back").touch()

def is_killed(home):
    beside = Beside(home)
    ThreadPoolExecutor(1).submit(beside.call, has_a_pool, str(home))
    while not Path(home, "begun").exists():
        time.sleep(0.01)
    beside.kill()
    raise KeyboardInterrupt

def has_a_pool(home):
    return list(run_tasks(begin, home, range(2), 2, patient=0.0))

def begin(home, _):
    Path(home, "begun").touch()
    time.sleep(60)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background command ignores it
    try:
        globals()[sys.argv[1]](Path(sys.argv[2]))
    except KeyboardInterrupt:
        os.write(1, b"interrupted")
        sys.stderr.flush()
        sys.exit(130)
"""


@pytest.mark.parametrize("when", ["idle", "starting", "at_work", "is_killed"])
def test_an_interrupted_program_is_told_of_alone(tmp_path: Path, when: str) -> None:
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "loads_for_a_while.py").write_text("import time\ntime.sleep(3.0)\n")
    command = [sys.executable, str(tmp_path / "caller.py"), when, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    done = subprocess.run(  # returns when all have ended that could say something
        command, env=environment, capture_output=True, text=True, timeout=120, start_new_session=True
    )
    assert (done.stdout, done.stderr) == ("interrupted", "")
    assert (tmp_path / "taken back").exists() == (when == "at_work")


def test_work_is_interruptible_and_what_waits_for_work_is_not() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with children.interruptible():
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with children.interruptible():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN, "a shell's background command heeds none"
    finally:
        signal.signal(signal.SIGINT, before)
