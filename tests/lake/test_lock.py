"""One writer at a time, and a second that is first at the last step is no fault."""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from trace_flywheel.lake.files import settle
from trace_flywheel.lake.lock import at_rest, working, writing
from trace_flywheel.lake.sidecar import LakeError

HOLD = """
import sys
from pathlib import Path
from trace_flywheel.lake.lock import writing
with writing(Path(sys.argv[1]), shared=sys.argv[2] == "shared"):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(home: Path, mode: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_a_second_writer_says_that_it_waits_and_then_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with holder(tmp_path, "alone") as first:
        assert first.stdout is not None
        assert first.stdin is not None
        assert first.stdout.readline() == "held\n"
        threading.Timer(0.5, first.stdin.close).start()
        with writing(tmp_path):
            assert first.wait(5) == 0
    assert capsys.readouterr().err == f"another flywheel writes to {tmp_path}; waiting for it\n"


def test_shared_writers_do_not_wait_for_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with holder(tmp_path, "shared") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with writing(tmp_path, shared=True):
            assert first.poll() is None
        assert first.stdin is not None
        first.stdin.close()
    assert capsys.readouterr().err == ""


def test_a_step_inside_a_pass_does_not_wait_for_it(tmp_path: Path) -> None:
    with writing(tmp_path), writing(tmp_path, shared=True), writing(tmp_path):
        pass


def test_a_home_is_at_rest_while_nobody_else_writes(tmp_path: Path) -> None:
    with holder(tmp_path, "shared") as first:
        assert first.stdout is not None
        assert first.stdin is not None
        assert first.stdout.readline() == "held\n"
        with at_rest(tmp_path) as rests:
            assert not rests
        with working(tmp_path), at_rest(tmp_path) as rests:
            assert rests, "this process works for who holds the lock"
        first.stdin.close()
    with at_rest(tmp_path) as rests, open(tmp_path / "lock") as other:
        assert rests
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    (tmp_path / "file").touch()
    with at_rest(tmp_path / "file") as rests:
        assert not rests


def test_a_home_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(LakeError, match="cannot be written"), writing(tmp_path / "file" / "home"):
        pass


def test_a_folder_that_another_writer_settled_first_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, final = tmp_path / "mine", tmp_path / "final"
    for folder in (mine, final):
        folder.mkdir()
        (folder / "data").write_text("same")
    there = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path != final and there(path))
    assert settle(mine, final) is False
    assert (final / "data").read_text() == "same"


UNGUARDED = """
import sys
from pathlib import Path
from trace_flywheel.flow.beside import Beside
from trace_flywheel.lake.lock import writing
with writing(Path(sys.argv[1])):
    Beside(Path(sys.argv[1])).call(print, "never")
"""


def test_a_script_without_a_guard_is_told_and_does_not_wait_for_itself(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, script, tmp_path / "home"], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert 'put it under `if __name__ == "__main__":`' in done.stderr
