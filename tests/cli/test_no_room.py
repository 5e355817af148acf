"""A disk without room is told in one line: no traceback of ours or Dagster's, no complaint of a half-written file."""

import errno
import gc
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from sqlalchemy.exc import OperationalError

from tests.flow.conftest import group, trace, write_runs
from trace_flywheel.cli.main import main
from trace_flywheel.cli.refused import refusal
from trace_flywheel.flow.beside import Beside
from trace_flywheel.lake.parts import TableFile

PROGRAM = "import sys; from trace_flywheel.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def small_files() -> Iterator[int]:
    """No file of this process grows beyond this many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield 4096
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_refresh_tells_in_one_line_what_it_cannot_write(tmp_path: Path) -> None:
    root = write_runs(tmp_path / "data", {"r1": group("a", (1.0, 0.0), 1)})
    words = [sys.executable, "-c", PROGRAM, "refresh", "--root", str(root), "--home", str(tmp_path / "home")]
    limit = 20_000
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "ingesting 1 of 1 runs"
    assert len(lines) == 2
    assert "Dagster's history cannot be written (disk I/O error)" in lines[1]
    assert main(words[3:]) == 0


def test_a_history_that_takes_no_partitions_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OperationalError("insert", {}, sqlite3.OperationalError("database or disk is full"))

    root = write_runs(tmp_path / "data", {"r1": group("a", (1.0, 0.0), 1)})
    words = ["refresh", "--root", str(root), "--home", str(tmp_path / "home")]
    monkeypatch.setattr(dg.DagsterInstance, "add_dynamic_partitions", full)
    assert main(words) == 1
    assert "Dagster's history cannot be written (database or disk is full)" in capsys.readouterr().err.splitlines()[-1]
    monkeypatch.undo()
    assert main(words) == 0


def test_goldens_that_a_read_only_home_cannot_take_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(path: Path, *_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path.with_name(".tmp-x")))

    root = write_runs(tmp_path / "data", {"r1": group("a", (1.0, 0.0), 1)}, [{"task_id": "z"}])
    monkeypatch.setattr("trace_flywheel.lake.goldens.replace_text", refused)
    assert main(["refresh", "--root", str(root), "--home", str(tmp_path / "home")]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert "home: there are other goldens than it knows, and it cannot be written (Read-only file system)" in said


def test_any_command_tells_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_runs(tmp_path / "data", {"r1": [trace("a", "b", 1.0, 1)]})
    monkeypatch.setattr("trace_flywheel.flow.watch.watch", full)
    assert main(["refresh", "--root", str(tmp_path / "data"), "--home", str(tmp_path / "home")]) == 1
    told = "flywheel: No space left on device: a file found no room; what was there before is whole; make room and try"
    assert capsys.readouterr().err == f"{told} again\n"


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("ended", [True, False])
def test_a_table_that_found_no_room_is_left_in_silence(tmp_path: Path, small_files: int, ended: bool) -> None:
    schema = pa.schema([("text", pa.string())])
    rows = pa.table({"text": [f"{n * 7919 % 100_003:x}" * 3 for n in range(20_000)]}, schema=schema)

    def written() -> None:
        file = TableFile(tmp_path / "part.parquet", schema)
        if ended:
            with file:
                file.write(rows)
        file.write(rows)

    with pytest.raises(OSError, match="File too large"):
        written()
    gc.collect()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (BlockingIOError(errno.EAGAIN, "unavailable"), "processes or threads may be started"),
        (RuntimeError("can't start new thread"), "processes or threads may be started"),
        (OSError(errno.EMFILE, "Too many open files"), "files may be open at once"),
        (OSError(errno.EMFILE, "Too many open files", "/lib/whatever.py"), "files may be open at once"),
        (MemoryError(), "memory may be had"),
        (OSError(errno.ENOMEM, "Cannot allocate memory", "python"), "memory may be had"),
        (ImportError("libarrow.so: failed to map segment from shared object"), "memory may be had"),
    ],
)
def test_where_no_more_may_be_started_or_opened_it_is_told_in_one_line(
    error: Exception, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object) -> None:
        raise error

    monkeypatch.setattr("trace_flywheel.cli.refresh.refreshed", refused)
    assert main(["refresh", "--root", str(tmp_path), "--home", str(tmp_path / "home")]) == 1
    assert capsys.readouterr().err.startswith(f"flywheel: no more {told} here; what was there before is whole; raise")


def test_an_import_that_fails_otherwise_is_no_matter_of_memory() -> None:
    assert refusal(ImportError("cannot import name 'x'")) is None
    hidden = ImportError("IMPORTANT: please read this")
    hidden.__cause__ = ImportError("libgfortran.so: failed to map segment from shared object")
    assert "memory" in (refusal(hidden) or "")


def test_a_process_that_may_not_be_started_ahead_is_no_fault_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Beside, "_new_pool", refused)
    beside = Beside(tmp_path)
    beside.start(gc.collect)
    with pytest.raises(OSError, match="Too many"):
        beside.call(gc.collect)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of addresses are Linux's")
def test_libraries_that_find_no_memory_are_told_in_one_line(tmp_path: Path) -> None:
    limit, program = 150 << 20, [sys.executable, "-m", "trace_flywheel.cli.main"]
    root = write_runs(tmp_path / "data", {"r1": group("a", (1.0, 0.0), 1)})
    done = subprocess.run(
        [*program, "refresh", "--root", str(root), "--home", str(tmp_path / "home")],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("flywheel: no more memory may be had here")
    assert "Traceback" not in done.stderr
