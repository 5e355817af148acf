"""A process beside the caller's: kept from call to call, its errors are the caller's, and it ends with the caller."""

import errno
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from trace_flywheel.flow import beside as module
from trace_flywheel.flow.beside import Beside
from trace_flywheel.lake.files import make_folder
from trace_flywheel.lake.lock import working, writing
from trace_flywheel.records.errors import FlywheelError

ROOT = Path(__file__).parents[2]


def pid_and(value: object) -> tuple[int, object]:
    return os.getpid(), value


def failing(error: Exception) -> None:
    raise error


def test_calls_share_one_process_that_is_not_this_one(tmp_path: Path) -> None:
    helper = Beside(tmp_path)
    (first, value), (second, _) = helper.call(pid_and, [1, None]), helper.call(pid_and, 2)
    assert value == [1, None]
    assert first == second != os.getpid()
    helper.close()
    again, _ = helper.call(pid_and, 3)
    assert again != first
    helper.close()


def test_an_error_over_there_is_raised_here_without_another_before_it(tmp_path: Path) -> None:
    helper = Beside(tmp_path)
    with pytest.raises(FlywheelError, match=r"^the golden file is cut$") as caught:
        helper.call(failing, FlywheelError("the golden file is cut"))
    assert caught.value.__cause__ is None
    with pytest.raises(ValueError, match=r"^odd\n") as unforeseen:
        helper.call(failing, ValueError("odd"))
    assert "test_beside.py" in unforeseen.value.__notes__[0]
    with pytest.raises(OSError, match="No space left") as full:
        helper.call(failing, OSError(errno.ENOSPC, "No space left on device"))
    assert not hasattr(full.value, "__notes__"), "it is told in one line"
    with pytest.raises(FlywheelError, match="the process that worked on it died"):
        helper.call(os._exit, 3)
    assert helper.call(pid_and, "well again")[1] == "well again"
    helper.close()


def test_a_process_that_died_between_two_calls_is_another_one_at_the_next(tmp_path: Path) -> None:
    helper = Beside(tmp_path)
    first, _ = helper.call(pid_and, 1)
    pool = helper._pool
    os.kill(first, signal.SIGKILL)
    until = time.monotonic() + 60
    while not pool._broken:  # type: ignore[union-attr]
        assert time.monotonic() < until
        time.sleep(0.01)
    second, value = helper.call(pid_and, 2)
    assert (second != first, value) == (True, 2)
    helper.close()


@pytest.mark.parametrize("how", ["it dies", "it is ended"])
def test_what_a_killed_process_left_unfinished_goes_with_the_next_writer(tmp_path: Path, how: str) -> None:
    unfinished = tmp_path / "lake" / "rollout_index" / "run" / ".tmp-1"
    helper = Beside(tmp_path)
    with writing(tmp_path):
        helper.call(make_folder, unfinished)
        if how == "it dies":
            with pytest.raises(FlywheelError, match="the process that worked on it died"):
                helper.call(os._exit, 3)
        else:
            helper.kill()
    helper.close()
    with writing(tmp_path):
        assert not unfinished.exists()
        make_folder(unfinished)
    with writing(tmp_path):
        assert unfinished.exists(), "the one before ended well"


def test_where_no_process_may_be_started_the_call_is_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "may_have_children", lambda: False)
    assert Beside(tmp_path).call(pid_and, 1) == (os.getpid(), 1)


CALLER = """
import sys, time
from pathlib import Path
from trace_flywheel.flow.beside import Beside
from trace_flywheel.lake.lock import writing
if __name__ == "__main__":
    home = Path(sys.argv[1])
    with writing(home):
        Beside(home).call(exec, f"import os, pathlib, time; pathlib.Path({str(home / 'pid')!r})"
            ".write_text(str(os.getpid())); time.sleep(60)")
"""


def test_a_killed_caller_takes_its_helper_along(tmp_path: Path) -> None:
    script = tmp_path / "caller.py"
    script.write_text(CALLER)
    home = tmp_path / "home"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    caller = subprocess.Popen([sys.executable, script, home], env=environment)
    until = time.monotonic() + 60
    while not (home / "pid").exists() or not (home / "pid").read_text():
        assert time.monotonic() < until
        time.sleep(0.05)
    helper = int((home / "pid").read_text())
    os.kill(caller.pid, signal.SIGKILL)
    caller.wait()
    with writing(home):  # the next writer waits until the helper lets go, which is the last thing it does
        until = time.monotonic() + 10
        while not _is_over(helper):
            assert time.monotonic() < until
            time.sleep(0.01)


BUSY = """
import os, re, sys
from pathlib import Path
from trace_flywheel.flow.beside import Beside
from trace_flywheel.flow.workers import Processes
def busy(home, _):
    (home / "worker").write_text(str(os.getpid()))
    re.match("(a+)+$", "a" * 60 + "b")  # longer than anybody waits, and no thread has its turn
def crew(home):
    (home / "helper").write_text(str(os.getpid()))
    list(Processes(busy, home, 1).over([0]))
if __name__ == "__main__":
    Beside(Path(sys.argv[1])).call(crew, Path(sys.argv[1]))
"""


def test_workers_of_a_killed_caller_end_whatever_they_do(tmp_path: Path) -> None:
    script = tmp_path / "caller.py"
    script.write_text(BUSY)
    caller = subprocess.Popen([sys.executable, script, tmp_path], env={**os.environ, "PYTHONPATH": str(ROOT)})
    until = time.monotonic() + 60
    while not (tmp_path / "worker").exists() or not (tmp_path / "worker").read_text():
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(0.2)  # it has begun
    pids = [int((tmp_path / name).read_text()) for name in ("helper", "worker")]
    assert not any(map(_is_over, pids))
    os.kill(caller.pid, signal.SIGKILL)
    caller.wait()
    until = time.monotonic() + 5
    try:
        while not all(map(_is_over, pids)):
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _is_over(pid: int) -> bool:
    """Gone, or over and nobody has asked how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_writer_waits_for_the_helper_of_a_writer_that_was_killed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The helper's lock alone holds the next writer back."""
    home = tmp_path / "home"
    home.mkdir()
    code = "import sys; from pathlib import Path; from trace_flywheel.lake.lock import writing\n"
    code += "with writing(Path(sys.argv[1])): print('in')"
    with working(home):
        waiting = subprocess.Popen([sys.executable, "-c", code, home], stdout=subprocess.PIPE, cwd=ROOT)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(timeout=3)
    assert waiting.communicate(timeout=60)[0] == b"in\n"
