"""Results in the order of tasks, and a task that fails or kills its process costs only itself."""

import errno
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from trace_flywheel.flow import children
from trace_flywheel.flow.beside import Beside
from trace_flywheel.flow.children import may_have_children, worker_count
from trace_flywheel.flow.crew import Crew
from trace_flywheel.flow.streamed import streamed
from trace_flywheel.flow.workers import Crash, run_alone, run_tasks
from trace_flywheel.records.errors import FlywheelError


def ten_times(_: None, task: int) -> int:
    if task == 2:
        os._exit(9)
    if task == 3:
        raise ValueError("the text of this error holds a secret")
    return task * 10


def test_results_come_in_order_and_a_dead_process_is_a_crash_in_its_place() -> None:
    results = list(run_tasks(ten_times, None, [1, 4, 2, 5, 6, 7], 2, patient=0.0))
    assert [r if isinstance(r, int) else r.died for r in results] == [10, 40, True, 50, 60, 70]


def process_and(_: None, task: int) -> tuple[int, int]:
    return os.getpid(), task


@pytest.mark.parametrize(("seconds", "at_once"), [(1.0, True), (0.1, False)])
def test_work_that_is_known_to_last_starts_in_processes(seconds: float, at_once: bool) -> None:
    results = list(run_tasks(process_and, None, range(20), 2, patient=3.0, seconds=lambda _: seconds))
    assert [task for _, task in results] == list(range(20))
    assert (os.getpid() not in {process for process, _ in results}) is at_once


def test_large_work_that_turns_out_to_be_none_starts_no_process() -> None:
    assert list(run_tasks(process_and, None, [], 2, patient=0.0, seconds=lambda _: 9.0)) == []
    ((process, _),) = run_tasks(process_and, None, [1], 2, patient=3.0, seconds=lambda _: 1.0)
    assert process == os.getpid()


def test_a_crash_tells_kind_and_place_of_an_error_but_not_its_text() -> None:
    (crash,) = run_tasks(ten_times, None, [3], 1)
    assert isinstance(crash, Crash)
    assert crash.reason.startswith("ValueError in test_workers.py:")
    assert "secret" not in crash.reason


def test_what_is_written_for_users_is_told_whole() -> None:
    def refuses(_: None, __: int) -> int:
        raise FlywheelError("do this instead")

    assert list(run_tasks(refuses, None, [1], 1)) == [Crash("do this instead")]


def test_a_task_alone_cannot_take_its_caller_with_it() -> None:
    assert run_alone(ten_times, None, 1) == 10
    crash = run_alone(ten_times, None, 2)
    assert isinstance(crash, Crash)
    assert crash.died


def numbers(until: int) -> Iterator[tuple[int, int]]:
    for number in range(until):
        yield os.getpid(), ten_times(None, number)


def test_a_stream_is_made_elsewhere_and_comes_in_order() -> None:
    results = list(streamed(numbers, 2))
    assert [number for _, number in results] == [0, 10]
    assert os.getpid() not in {process for process, _ in results}


def test_a_stream_that_nobody_reads_on_ends_its_process() -> None:
    stream = streamed(endless, 0)
    process = next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert not Path(f"/proc/{process}").exists()


def endless(_: int) -> Iterator[int]:
    while True:
        yield os.getpid()


@pytest.mark.parametrize(("until", "told"), [(3, "died"), (-1, "do this instead"), (-2, "ValueError in test_workers")])
def test_what_ends_a_stream_is_told_after_what_it_gave(until: int, told: str) -> None:
    stream = streamed(ending, until)
    assert next(stream) == "first"
    with pytest.raises(FlywheelError, match=told) as caught:
        next(stream)
    assert "secret" not in str(caught.value)


def ending(how: int) -> Iterator[str]:
    yield "first"
    if how == -1:
        raise FlywheelError("do this instead")
    if how == -2:
        raise ValueError("the text of this error holds a secret")
    os._exit(9)


@pytest.mark.parametrize("asked", [1, 2, 7])
def test_workers_are_what_was_asked_for(asked: int) -> None:
    assert worker_count(asked) == asked
    assert worker_count(0) >= 1


def in_a_process_without_children(answer: "multiprocessing.Queue[object]") -> None:
    answer.put((worker_count(4), list(run_tasks(ten_times, None, [1, 4], worker_count(4), patient=0.0))))
    answer.put(run_alone(ten_times, None, 5))


def test_a_process_that_may_have_no_children_does_the_work_itself() -> None:
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    worker = context.Process(target=in_a_process_without_children, args=(answer,), daemon=True)
    worker.start()
    assert answer.get(timeout=120) == (1, [10, 40])
    assert answer.get(timeout=120) == 50
    worker.join()


@pytest.fixture
def without_shared_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("_multiprocessing.SemLock", refused)
    children._has_locks.cache_clear()
    yield
    children._has_locks.cache_clear()


@pytest.mark.usefixtures("without_shared_memory")
def test_where_processes_cannot_wait_for_each_other_the_work_is_done_here(tmp_path: Path) -> None:
    assert worker_count(4) == 1
    assert list(run_tasks(ten_times, None, [1, 4], worker_count(4), patient=0.0)) == [10, 40]
    assert run_alone(ten_times, None, 5) == 50
    assert Beside(tmp_path).call(os.getpid) == os.getpid()
    assert list(Crew(None, 4, at_once=True).over(ten_times, [1, 4], 100.0)) == [10, 40]


DEEP = """
import operator, sys, tempfile
from trace_flywheel.flow.workers import run_tasks
if __name__ == "__main__":
    before = tempfile.gettempdir()
    print(list(run_tasks(operator.add, 1, range(6), 2, patient=0.0)), tempfile.gettempdir() == before == sys.argv[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes do not meet at a socket")
def test_a_temporary_folder_too_deep_for_a_socket_stops_nothing(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    (tmp_path / "deep.py").write_text(DEEP)
    environment = {**os.environ, "TMPDIR": str(deep), "PYTHONPATH": str(Path(__file__).parents[2])}
    argv = [sys.executable, str(tmp_path / "deep.py"), str(deep)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[1, 2, 3, 4, 5, 6] True\n", done.stderr
    assert list(deep.iterdir()) == []


def test_where_few_more_processes_may_be_there_the_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of the user or of a container: a thread more than those that are there cannot be started."""
    left = [children.ROOM - 1]
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    children._has_room.cache_clear()
    before = threading.active_count()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", limited)
        assert not may_have_children()
        assert worker_count(2) == 1
    assert threading.active_count() == before
    children._has_room.cache_clear()
    assert may_have_children()
