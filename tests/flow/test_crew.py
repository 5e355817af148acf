"""The processes of a pass: results in the order of tasks, the dead are replaced, and nobody is left at work."""

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from trace_flywheel.flow.children import worker_count
from trace_flywheel.flow.crew import Crew
from trace_flywheel.lake.spool import Place, Spools, spooled
from trace_flywheel.records.errors import FlywheelError

LONG = 100.0


def process_and(shared: int, task: int) -> tuple[int, int]:
    return os.getpid(), shared * task


def refusing(_: int, task: int) -> int:
    if task == 1:
        raise FlywheelError("do this instead")
    return task


def test_results_come_in_order_from_processes_that_stay(tmp_path: Path) -> None:
    crew = Crew(10, 2)
    first = list(crew.over(process_and, range(8), LONG))
    again = list(crew.over(process_and, range(4), 0.0))
    assert [value for _, value in first] == [n * 10 for n in range(8)]
    processes = {process for process, _ in first}
    assert os.getpid() not in processes
    assert len(processes | {process for process, _ in again}) <= 2, "the first ones stay"
    assert list(crew.each(abs, [-1, 2], LONG)) == [1, 2]


def meeting(folder: Path, task: int) -> int:
    """Ends when another task is under way too."""
    (folder / str(task)).touch()
    until = time.monotonic() + LONG
    while len(list(folder.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    return os.getpid()


def test_two_workers_work_side_by_side(tmp_path: Path) -> None:
    assert len(set(Crew(tmp_path, 2).over(meeting, range(2), LONG))) == 2


_noted: list[str] = []


def noted(_: Path, word: str) -> None:
    _noted.append(word)
    time.sleep(0.3)  # so that neither of two takes both


def told(folder: Path, task: int) -> int:
    assert _noted == ["ready"]
    return meeting(folder, task)


def test_processes_that_were_started_do_the_work(tmp_path: Path) -> None:
    crew = Crew(tmp_path, 2, at_once=True)
    crew.start(noted, "ready")
    started = set(crew._processes._pool._processes)  # type: ignore[union-attr]
    assert len(started) == 2
    assert len(set(crew.over(told, range(2), 0.0))) == 2, "each of them is ready"
    for path in tmp_path.iterdir():
        path.unlink()
    assert set(crew.over(meeting, range(2), 0.0)) == started


def test_nobody_is_started_where_little_is_known_of_the_work() -> None:
    crew = Crew(1, 2)
    crew.start(process_and, 1)
    assert crew._processes._pool is None
    assert {process for process, _ in crew.over(process_and, range(3), 0.1)} == {os.getpid()}


@pytest.mark.parametrize("workers", [1, 2])
def test_little_work_starts_no_process(workers: int) -> None:
    assert {process for process, _ in Crew(1, workers).over(process_and, range(3), 0.1)} == {os.getpid()}


def test_one_worker_has_a_process_where_there_may_be_any(monkeypatch: pytest.MonkeyPatch) -> None:
    (process,) = {process for process, _ in Crew(1, 1).over(process_and, range(3), LONG)}
    assert process != os.getpid()
    assert os.getpid() not in {process for process, _ in Crew(1, 1, at_once=True).over(process_and, range(3), 0.1)}
    monkeypatch.setattr("trace_flywheel.flow.crew.may_have_children", lambda: False)
    assert {process for process, _ in Crew(1, 2).over(process_and, range(3), LONG)} == {os.getpid()}


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_task_refuses_is_told_and_the_crew_works_on(workers: int) -> None:
    crew = Crew(0, workers)
    with pytest.raises(FlywheelError, match=r"^do this instead$"):
        list(crew.over(refusing, range(5), LONG))
    assert list(crew.over(refusing, [0, 2], LONG)) == [0, 2]


def spooling(folder: Path, task: int) -> Place:
    """Writes a line. The first time at task 2 it dies with half of another written."""
    with Spools(folder) as spools:
        if task == 2 and not (folder / "died").exists():
            (folder / "died").touch()
            spools.add("messages", [b'{"half": "of'])
            spools.__exit__(None, None, None)
            os._exit(9)
        return spools.add("messages", [b'{"row": %d}' % task])


def test_a_task_whose_process_died_is_done_again_and_no_line_is_lost(tmp_path: Path) -> None:
    places = list(Crew(tmp_path, 2).over(spooling, range(6), LONG))
    assert list(spooled(tmp_path, "messages", places)) == [b'{"row": %d}\n' % n for n in range(6)]


def dying(_: int, task: int) -> int:
    if task == 1:
        os._exit(9)
    return task


def test_a_task_that_kills_its_process_twice_is_an_error() -> None:
    with pytest.raises(FlywheelError, match="the process that worked on it died"):
        list(Crew(0, 2).over(dying, range(4), LONG))


def slow(folder: Path, task: int) -> int:
    (folder / f"began-{task}").touch()
    if task:
        time.sleep(1)
    (folder / f"ended-{task}").touch()
    return task


def test_whoever_stops_reading_leaves_nobody_at_work(tmp_path: Path) -> None:
    results = Crew(tmp_path, 2).over(slow, range(50), LONG)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    began, ended = (len(list(tmp_path.glob(f"{what}-*"))) for what in ("began", "ended"))
    assert began == ended < 10


def in_a_process_without_children(answer: "multiprocessing.Queue[object]") -> None:
    answer.put(
        list(Crew(10, worker_count(4)).over(process_and, range(3), LONG)) == [(os.getpid(), n) for n in (0, 10, 20)]
    )


def test_a_process_that_may_have_no_children_does_the_work_itself() -> None:
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    worker = context.Process(target=in_a_process_without_children, args=(answer,), daemon=True)
    worker.start()
    assert answer.get(timeout=120) is True
    worker.join()


def crew_in_a_child(answer: "multiprocessing.Queue[object]") -> None:
    global _kept
    _kept = Crew(1, 2)
    answer.put([value for _, value in _kept.over(process_and, range(3), LONG)])


_kept: Crew[int] | None = None


def test_a_process_with_a_crew_ends_when_its_work_does() -> None:
    """Its own processes wait for work: they are told to go before it waits for them."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    worker = context.Process(target=crew_in_a_child, args=(answer,))
    worker.start()
    assert answer.get(timeout=120) == [0, 1, 2]
    worker.join(timeout=60)
    assert worker.exitcode == 0
