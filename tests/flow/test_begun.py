"""Calls that are begun before they are asked for give what they would have given then, and outlive nobody."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.flow.conftest import group, write_runs
from trace_flywheel.flow import begun as module
from trace_flywheel.flow import beside, ingest
from trace_flywheel.flow.begun import begun, ingestion, taken, taken_process
from trace_flywheel.flow.home import lake_of
from trace_flywheel.flow.lasting import run_step
from trace_flywheel.flow.watch import watch
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.settings import Settings, load_settings


def noting(folder: Path, name: str) -> int:
    (folder / name).write_text(str(os.getpid()))
    return os.getpid()


def waiting(folder: Path, name: str) -> None:
    noting(folder, name)
    time.sleep(60)


def failing(text: str) -> None:
    raise FlywheelError(text)


def nothing() -> None:
    """To load."""


def pid_in(path: Path) -> int:
    until = time.monotonic() + 60
    while not path.exists() or not path.read_text():
        assert time.monotonic() < until
        time.sleep(0.01)
    return int(path.read_text())


def is_over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_calls_run_in_their_order_before_they_are_asked_for(tmp_path: Path) -> None:
    with begun(tmp_path, [(noting, (tmp_path, "first")), (noting, (tmp_path, "second"))]):
        second = pid_in(tmp_path / "second")
        asked = taken(noting, (tmp_path, "first"))
        assert asked is not None
        assert asked.result() == pid_in(tmp_path / "first") == second != os.getpid(), "one process makes them all"
        asked = taken(noting, (tmp_path, "second"))
        assert asked is not None
        assert asked.result() == second
        assert taken(noting, (tmp_path, "second")) is None, "each is given once"
    assert taken(noting, (tmp_path, "first")) is None


def spreading(folder: Path, number: int) -> list[int]:
    """The processes that a step of this call works in."""
    made = set(run_step(process_of, number, range(8), 2, lambda _: 9.0))
    (folder / str(number)).write_text("made")
    return sorted(made)


def process_of(shared: int, task: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def test_the_processes_of_a_call_go_to_the_next_one_and_end_with_the_last(tmp_path: Path) -> None:
    calls = [(spreading, (tmp_path, number)) for number in range(3)]
    with begun(tmp_path, calls, (nothing, (noting, (tmp_path, "last")))):
        made = [asked.result() for function, arguments in calls if (asked := taken(function, arguments)) is not None]
        assert made == [made[0]] * 3
        assert len(made[0]) == 2
        pid_in(tmp_path / "last")
        assert all(map(is_over, made[0])), "the last call has their memory"


def dying(folder: Path) -> None:
    os._exit(9)


def test_a_process_that_dies_costs_its_call_alone(tmp_path: Path) -> None:
    with begun(tmp_path, [(dying, (tmp_path,)), (noting, (tmp_path, "after"))]):
        asked, after = taken(dying, (tmp_path,)), taken(noting, (tmp_path, "after"))
        assert asked is not None
        with pytest.raises(FlywheelError, match="the process that worked on it died"):
            asked.result()
        assert after is not None
        assert after.result() == pid_in(tmp_path / "after")


def test_an_error_is_told_to_the_one_who_asks_for_its_call(tmp_path: Path) -> None:
    with begun(tmp_path, [(failing, ("the file is cut",)), (noting, (tmp_path, "after"))]):
        pid_in(tmp_path / "after")
        asked = taken(failing, ("the file is cut",))
        assert asked is not None
        with pytest.raises(FlywheelError, match=r"^the file is cut$"):
            asked.result()
        after = taken(noting, (tmp_path, "after"))
        assert after is not None
        assert after.result() == pid_in(tmp_path / "after")


@pytest.mark.parametrize("other", [(noting, "first"), (waiting, "other")])
def test_another_question_ends_what_was_begun(other: tuple[Callable[..., object], str], tmp_path: Path) -> None:
    function, name = other
    with begun(tmp_path, [(waiting, (tmp_path, "first")), (noting, (tmp_path, "second"))]):
        pid = pid_in(tmp_path / "first")
        assert taken(function, (tmp_path, name)) is None
        assert is_over(pid)
        assert taken(noting, (tmp_path, "second")) is None
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize("asked", [False, True])
def test_an_interrupt_ends_what_is_under_way(asked: bool, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), begun(tmp_path, [(waiting, (tmp_path, "first"))]):  # noqa: PT012 # the block is what is interrupted
        pid = pid_in(tmp_path / "first")
        assert not is_over(pid)
        if asked:
            taken(waiting, (tmp_path, "first"))
        raise KeyboardInterrupt
    assert is_over(pid)
    assert taken(waiting, (tmp_path, "first")) is None


def test_an_interrupt_before_all_are_begun_ends_those_that_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(ThreadPoolExecutor):
        def submit(self, function, *arguments):  # type: ignore[override]
            if (tmp_path / "first").exists():
                raise KeyboardInterrupt
            given = super().submit(function, *arguments)
            pid_in(tmp_path / "first")
            return given

    monkeypatch.setattr(module, "ThreadPoolExecutor", Interrupted)
    calls = [(waiting, (tmp_path, "first")), (noting, (tmp_path, "second"))]
    with pytest.raises(KeyboardInterrupt), begun(tmp_path, calls):
        pass
    pid = pid_in(tmp_path / "first")
    ended = is_over(pid)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    assert ended


def test_the_last_process_is_taken_over_when_all_calls_were_asked_for(tmp_path: Path) -> None:
    last = nothing, (noting, (tmp_path, "last"))
    with begun(tmp_path, [(noting, (tmp_path, "first"))], last):
        pid = pid_in(tmp_path / "last")
        assert taken_process() is None
        asked = taken(noting, (tmp_path, "first"))
        assert asked is not None
        assert asked.result() != pid
        process = taken_process()
        assert process is not None
        assert taken_process() is None
    assert process.call(noting, tmp_path, "again") == pid, "it is no matter of the block any more"
    process.close()
    assert is_over(pid)


def test_the_last_process_loads_while_the_calls_before_it_are_under_way(tmp_path: Path) -> None:
    load = partial(noting, tmp_path, "loaded")
    with begun(tmp_path, [(waiting, (tmp_path, "first"))], (load, (noting, (tmp_path, "last")))):  # type: ignore[arg-type]
        loaded, first = pid_in(tmp_path / "loaded"), pid_in(tmp_path / "first")
        assert loaded != first
        assert not (tmp_path / "last").exists(), "it works after all others"
    assert is_over(loaded)
    assert is_over(first)


def test_what_the_last_process_loaded_is_there_when_it_is_called(tmp_path: Path) -> None:
    load = partial(noting, tmp_path, "loaded")
    with begun(tmp_path, [], (load, (noting, (tmp_path, "last")))):  # type: ignore[arg-type]
        assert pid_in(tmp_path / "last") == pid_in(tmp_path / "loaded")


@pytest.mark.parametrize("function", [noting, waiting])
def test_a_last_process_that_nobody_takes_ends_with_the_block(
    function: Callable[[Path, str], object], tmp_path: Path
) -> None:
    with begun(tmp_path, [], (nothing, (function, (tmp_path, "last")))):
        pid = pid_in(tmp_path / "last")
    assert is_over(pid)
    assert taken_process() is None


def settings_of(tmp_path: Path, workers: int = 2) -> Settings:
    return load_settings(home=tmp_path / "home", roots=(tmp_path / "data",), ingest={"workers": workers})


def test_ingestion_is_foreseen_where_one_run_of_dagster_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_runs(tmp_path / "data", {"a": group("t", (1.0, 0.0), 1), "b": group("u", (1.0, 0.0), 1)})
    settings = settings_of(tmp_path)
    lake, seen = lake_of(settings), watch(settings, lake_of(settings))

    def steps(settings: Settings = settings, runs: int = 2) -> list[str]:
        return [
            task[0].__name__
            for _, (_, task) in ingestion(lake, settings, seen.inputs, seen.todo[:runs], seen.fingerprints)
        ]

    assert steps() == [], "little work"
    monkeypatch.setattr(beside, "SMALL_BYTES", -1)
    assert steps() == ["graded_traces", "redacted_rollouts", "rollout_index"]
    assert steps(settings_of(tmp_path, workers=1)) == [], "the program that asks would have to share its core"
    monkeypatch.setattr(module, "MOST_RUNS", 1)
    assert steps() == []
    monkeypatch.undo()
    monkeypatch.setattr(beside, "SMALL_BYTES", -1)
    list(ingest.graded_traces(seen.todo[:1], lake, settings, seen.inputs))
    assert steps() == [], "one is known already"
    assert len(steps(runs=1)) == 3
