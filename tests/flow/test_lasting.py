"""Steps that share processes get what they would have got of their own."""

import os
from multiprocessing import active_children
from pathlib import Path

import pytest

from trace_flywheel.flow import lasting as module
from trace_flywheel.flow.beside import Beside
from trace_flywheel.flow.lasting import lasting, run_step
from trace_flywheel.flow.workers import Crash


def sum_and_process(shared: list[int], task: int) -> tuple[int, int]:
    if task == 3:
        raise ValueError("the text of this error holds a secret")
    return sum(shared) + task, os.getpid()


def dying(shared: list[int], task: int) -> int:
    if task == 2:
        os._exit(9)
    return sum(shared) + task


def two_steps(first: list[int], second: list[int]) -> tuple[list[list[int | str]], bool]:
    """What two steps give, and whether all of it was made by the same processes."""
    made: list[list[int | str]] = []
    processes: list[set[int]] = []
    with lasting():
        for shared in (first, second):
            results = list(run_step(sum_and_process, shared, range(5), 2, lambda _: 9.0))
            made.append([r.reason.split(" in ")[0] if isinstance(r, Crash) else r[0] for r in results])
            processes.append({r[1] for r in results if not isinstance(r, Crash)})
    return made, processes[0] | processes[1] == {child.pid for child in active_children()}


def test_each_step_has_what_it_shares_and_its_results_in_order(tmp_path: Path) -> None:
    beside = Beside(tmp_path)
    (first, second), same = beside.call(two_steps, [1, 2], [10, 20])
    beside.close()
    assert first == [3, 4, 5, "ValueError", 7]
    assert second == [30, 31, 32, "ValueError", 34]
    assert same


def test_what_is_much_to_share_has_processes_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    made, same = two_steps([1, 2], [10, 20])
    assert made == [[3, 4, 5, "ValueError", 7], [30, 31, 32, "ValueError", 34]]
    assert not same


def after_a_death() -> list[list[int | bool]]:
    with lasting():
        steps = [list(run_step(dying, [shared], range(5), 2, lambda _: 9.0)) for shared in (0, 10)]
    return [[r.died if isinstance(r, Crash) else r for r in step] for step in steps]


def test_a_task_that_kills_its_process_is_a_crash_in_its_place_and_the_next_step_goes_on(tmp_path: Path) -> None:
    beside = Beside(tmp_path)
    assert beside.call(after_a_death) == [[0, 1, True, 3, 4], [10, 11, True, 13, 14]]
    beside.close()


def test_outside_of_such_a_block_a_step_is_on_its_own() -> None:
    results = list(run_step(sum_and_process, [1], [0, 1], 2, lambda _: 0.0))
    assert results == [(1, os.getpid()), (2, os.getpid())]
