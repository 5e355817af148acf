"""Who may hand over the next piece, where several threads work side by side."""

import threading
import time
from collections.abc import Callable

import pytest

from trace_flywheel.flow.places import Places, rank
from trace_flywheel.flow.workers import Processes


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def asking(places: Places, order: list[int], own: int) -> threading.Thread:
    def ask() -> None:
        rank.set(own)
        places.take()
        order.append(own)

    thread = threading.Thread(target=ask, daemon=True)
    waiting = len(places._asked)
    thread.start()
    until(lambda: len(places._asked) == waiting + 1 or own in order)
    return thread


def test_the_lowest_rank_comes_first_and_among_equals_who_asked_first() -> None:
    places, order = Places(1), list[int]()
    places.take()
    threads = [asking(places, order, own) for own in (3, 1, 2, 1_000, 0)]
    for number in range(1, 6):
        places.give()
        until(lambda number=number: len(order) == number)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 1_000]


def test_as_many_are_under_way_as_there_are_places() -> None:
    places, order = Places(2), list[int]()
    threads = [asking(places, order, own) for own in range(4)]
    until(lambda: len(order) == 2)
    time.sleep(0.05)
    assert len(order) == 2
    places.give()
    places.give()
    for thread in threads:
        thread.join()
    assert order[2:] == [2, 3]


def test_nobody_waits_behind_one_who_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    places, order = Places(1), list[int]()
    places.take()
    thread = asking(places, order, 5)

    def interrupted(timeout: float | None = None) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(places._changed, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            places.take()
    assert len(places._asked) == 1
    places.give()
    thread.join(60)
    assert order == [5]


def slowly(_: None, task: tuple[int, int]) -> tuple[int, int]:
    time.sleep(0.02)
    return task


def test_pieces_of_the_first_rank_are_done_before_those_of_the_second() -> None:
    """Begun later, it still ends while most of the other one is left."""
    processes: Processes[None, tuple[int, int], tuple[int, int]] = Processes(slowly, None, 2)
    done: dict[int, int] = {1: 0, 2: 0}
    left: list[int] = []

    def work(own: int) -> None:
        rank.set(own)
        for position, result in enumerate(processes.over((own, n) for n in range(60))):
            assert result == (own, position), "in the order of the tasks"
            done[own] += 1
        if own == 1:
            left.append(60 - done[2])

    threads = [threading.Thread(target=work, args=(own,)) for own in (2, 1)]
    threads[0].start()
    until(lambda: done[2] >= 4)
    threads[1].start()
    for thread in threads:
        thread.join()
    processes.end()
    assert done == {1: 60, 2: 60}
    assert left[0] >= 30


def test_places_of_a_pool_that_ended_are_free_again() -> None:
    processes: Processes[None, tuple[int, int], tuple[int, int]] = Processes(slowly, None, 2)
    results = processes.over((0, n) for n in range(8))
    assert next(results) == (0, 0)
    results.close()
    assert len(list(processes.over((0, n) for n in range(8)))) == 8
    until(lambda: processes._places._free == 4)
    processes.end()
