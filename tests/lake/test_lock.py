"""One writer at a time, and a second that is first at the last step is no fault."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from trace_flywheel.lake import lock
from trace_flywheel.lake.files import settle
from trace_flywheel.lake.lock import AT_WORK, MARK, at_rest, mark, working, writing
from trace_flywheel.lake.sidecar import LakeError

HOLD = """
import signal, sys
from pathlib import Path
from trace_flywheel.lake.lock import writing
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored by what it starts beside itself
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


def test_who_waits_for_nobody_knows_whether_anybody_wrote_since(tmp_path: Path) -> None:
    assert mark(tmp_path / "home") == b""
    with writing(tmp_path / "home") as before:
        assert before == b"", "nobody had written"
        begun = mark(tmp_path / "home")
        with writing(tmp_path / "home") as inside:
            assert inside == begun
    ended = mark(tmp_path / "home")
    assert len({b"", begun, ended}) == 3, "who looked while another wrote looks again"
    with writing(tmp_path / "home") as before:
        assert before == ended
    with writing(tmp_path / "home", shared=True) as before:
        assert before not in (begun, ended)


def test_a_full_disk_takes_no_mark_and_stops_no_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lock.os, "pwrite", full)
    with writing(tmp_path):
        assert mark(tmp_path) == b""


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


LEFT = ("lake/rollout_index/r%2Fa/.tmp-x.json", "lake/rollout_index/r%2Fa/.tmp-y/part-00000.parquet")
LEFT += ("lake/gathered_index/.tmp-x/rows.parquet", "lake/quarantine/.tmp-x", "lake/.tmp-x/sft_dataset_lines/current")
LEFT += ("datasets/sft_dataset/.tmp-x/spool", "datasets/sft_dataset/.tmp-latest", "datasets/sft_dataset/v/.tmp-fates")
ELSEWHERE = ("lake/.tmp-goldens", "lake/corpora/a/b/.tmp-1", "exports/.tmp-x", "lake/rollout_index/r%2Fa/g/part-0")
"""What others may write without the lock, and what is no unfinished work."""


def leave(home: Path) -> None:
    for name in (*LEFT, *ELSEWHERE):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()


def left(home: Path) -> set[str]:
    return {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()} & {*LEFT, *ELSEWHERE}


@pytest.mark.parametrize("ended", ["killed", "interrupted", "shared", "well"])
def test_what_a_writer_left_goes_with_the_next_one_that_is_alone(ended: str, tmp_path: Path) -> None:
    """Of one that ended well nothing is looked for: with ten thousand runs that takes a second."""
    with holder(tmp_path, "shared" if ended == "shared" else "alone") as first:
        assert first.stdout is not None
        assert first.stdin is not None
        assert first.stdout.readline() == "held\n"
        leave(tmp_path)
        if ended == "killed":
            first.kill()
        elif ended == "interrupted":
            first.send_signal(signal.SIGINT)
        first.stdin.close()
    assert (tmp_path / "lock").read_bytes()[MARK:] == (b"" if ended == "well" else AT_WORK)
    with writing(tmp_path, shared=True):
        assert left(tmp_path) == {*LEFT, *ELSEWHERE}
    if ended == "well":
        (tmp_path / "lock").write_bytes(b"")  # the one that shared it did not know
    with writing(tmp_path):
        assert left(tmp_path) == {*ELSEWHERE, *(LEFT if ended == "well" else ())}
    leave(tmp_path)
    with writing(tmp_path):
        assert left(tmp_path) == {*LEFT, *ELSEWHERE}


@pytest.mark.parametrize(("error", "told"), [(LakeError("no"), b""), (OSError("full"), b""), (SystemExit(1), AT_WORK)])
def test_one_that_failed_has_ended(error: BaseException, told: bytes, tmp_path: Path) -> None:
    with pytest.raises(type(error)), writing(tmp_path):
        raise error
    assert (tmp_path / "lock").read_bytes()[MARK:] == told


def test_where_readers_fetch_what_is_a_day_old_goes_alone(tmp_path: Path) -> None:
    leave(tmp_path)
    (tmp_path / "remote.json").touch()
    with suppress(KeyboardInterrupt), writing(tmp_path):
        raise KeyboardInterrupt
    with writing(tmp_path):
        assert left(tmp_path) == {*LEFT, *ELSEWHERE}
    os.utime(tmp_path / LEFT[0], (0, 0))
    with suppress(KeyboardInterrupt), writing(tmp_path):
        raise KeyboardInterrupt
    with writing(tmp_path):
        assert left(tmp_path) == {*LEFT[1:], *ELSEWHERE}


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir])
def test_what_is_no_file_locks_nothing_and_is_waited_for_by_nobody(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "lock")
    assert mark(tmp_path) == b""
    with pytest.raises(LakeError, match=r"cannot be written \(it is no file\)"), writing(tmp_path):
        pass
    with at_rest(tmp_path) as alone:
        assert not alone
