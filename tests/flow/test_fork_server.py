"""One fork server for all processes of a program, also for those that its processes start."""

import gc
import os
import resource
import signal
import subprocess
import sys
from multiprocessing import forkserver
from pathlib import Path

import pyarrow as pa
import pytest

from trace_flywheel.flow.beside import Beside
from trace_flywheel.flow.fork_server import SPARING
from trace_flywheel.flow.workers import run_alone, run_tasks

ROOT = Path(__file__).parents[2]


def server_of(_: None, __: int) -> int:
    return os.getppid()


def servers_below(depth: int) -> list[int | object]:
    """Of this process and of those that it starts, to a depth."""
    below = run_alone(next_below, None, depth - 1) if depth else []
    return [os.getppid(), *run_tasks(server_of, None, range(4), 2, patient=0.0), *(below or ())]  # type: ignore[misc]


def next_below(_: None, depth: int) -> list[int | object]:
    return servers_below(depth)


def test_processes_of_processes_come_from_the_same_server(tmp_path: Path) -> None:
    helper = Beside(tmp_path)
    servers = helper.call(servers_below, 2)
    helper.close()
    assert servers == [forkserver._forkserver._forkserver_pid] * 15


def frozen(_: None, __: int) -> int:
    return gc.get_freeze_count()


def test_what_the_server_loaded_is_walked_by_no_process() -> None:
    assert min(run_tasks(frozen, None, range(2), 2, patient=0.0)) > 10_000  # type: ignore[type-var]


def heaps(_: None, __: int) -> tuple[str, str | None]:
    return pa.default_memory_pool().backend_name, os.environ.get("MALLOC_ARENA_MAX")


TOLD = """
import os
from tests.flow.test_fork_server import heaps
from trace_flywheel.flow.workers import run_tasks
if __name__ == "__main__":
    print(*run_tasks(heaps, None, range(2), 2, patient=0.0), os.environ.get("MALLOC_ARENA_MAX"))
"""


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({}, "('system', '1') ('system', '1') None"),
        ({"MALLOC_ARENA_MAX": "3"}, "('system', '3') ('system', '3') 3"),
        ({"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"}, "('jemalloc', '1') ('jemalloc', '1') None"),
    ],
)
def test_all_threads_of_a_process_share_one_heap_unless_the_environment_says_otherwise(
    tmp_path: Path, said: dict[str, str], found: str
) -> None:
    (tmp_path / "told.py").write_text(TOLD)
    environment = {name: value for name, value in os.environ.items() if name not in SPARING}
    run = [sys.executable, str(tmp_path / "told.py")]
    told = subprocess.run(
        run, env={**environment, **said, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == found


APART = """
import operator
from trace_flywheel.flow.workers import run_alone

if __name__ == "__main__":
    print(run_alone(operator.add, 2, 3))
"""


def test_no_module_of_the_current_folder_is_loaded_which_may_be_a_job_folder(tmp_path: Path) -> None:
    script, folder = tmp_path / "apart.py", tmp_path / "job"
    script.write_text(APART)
    folder.mkdir()
    for name in ("signal", "selectors", "struct", "numpy", "trace_flywheel"):
        (folder / f"{name}.py").write_text(f"open('{folder}/loaded', 'a').write('{name} ')\nraise ImportError\n")
    environment = {name: value for name, value in os.environ.items() if name not in SPARING}
    told = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.stdout, told.stderr) == ("5\n", "")
    assert not (folder / "loaded").exists()


def pages_of_the_second(_: None, size: int) -> int:
    """Pages that the system clears for a text where one as long was just given back."""
    bytearray(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytearray(b"x") * size
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_what_a_process_gave_back_is_used_again_without_the_system() -> None:
    size = 16 << 20
    pages = run_alone(pages_of_the_second, None, size)
    assert isinstance(pages, int)
    assert pages < size // resource.getpagesize() // 16


WAITS = """
import time
from pathlib import Path
while not Path(__file__).with_name("gone on").exists():
    time.sleep(0.01)
"""
AHEAD = """
import sys
from pathlib import Path
from multiprocessing import forkserver
from trace_flywheel.flow.fork_server import start_ahead
from trace_flywheel.flow.workers import run_tasks
if __name__ == "__main__":
    from tests.flow.test_fork_server import server_of
    start_ahead("waits_for_the_caller")
    Path(__file__).with_name("gone on").touch()
    print("waits_for_the_caller" in sys.modules)
    pid = forkserver._forkserver._forkserver_pid
    print(set(run_tasks(server_of, None, range(2), 2, patient=0.0)) == {pid})
"""


def test_a_server_started_ahead_lets_the_caller_go_on_and_is_the_one_asked_later(tmp_path: Path) -> None:
    script = tmp_path / "ahead.py"
    script.write_text(AHEAD)
    (tmp_path / "waits_for_the_caller.py").write_text(WAITS)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["False", "True"], done.stderr


INTERRUPTED = """
import signal
from trace_flywheel.flow.fork_server import start_ahead
from trace_flywheel.flow.workers import run_tasks
if __name__ == "__main__":
    from tests.flow.test_fork_server import heeds
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background command ignores it
    start_ahead("is_interrupted")
    print(set(run_tasks(heeds, None, range(2), 2, patient=0.0)))
"""


def heeds(_: None, __: int) -> bool:
    """Whether Ctrl-C reaches this process."""
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return not blocked and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_server_that_is_interrupted_while_it_starts_says_nothing_and_serves(tmp_path: Path) -> None:
    (tmp_path / "is_interrupted.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    command = [sys.executable, tmp_path / "interrupted.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("{True}\n", "")


PATIENT = """
from trace_flywheel.flow.fork_server import start_ahead
from trace_flywheel.flow.workers import patience
if __name__ == "__main__":
    print(patience(2))
    start_ahead("json")
    print(round(patience(2), 6), patience(1))
"""


def test_work_moves_to_processes_sooner_where_their_server_is_there(tmp_path: Path) -> None:
    (tmp_path / "patient.py").write_text(PATIENT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, tmp_path / "patient.py"], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["3.0", "0.3", "3.0"], done.stderr
