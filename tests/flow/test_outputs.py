"""Outputs are checked before anything is read; `-` is stdout."""

import os
from pathlib import Path
from typing import BinaryIO

import pytest

from trace_flywheel.flow.outputs import STDOUT, check_outputs, written
from trace_flywheel.records.errors import FlywheelError, UsageError


def test_two_options_never_share_a_file(tmp_path: Path) -> None:
    check_outputs({"--out": tmp_path / "a", "--manifest": tmp_path / "b", "--pairs": None}, [tmp_path])
    with pytest.raises(UsageError, match="--manifest and --out are the same file"):
        check_outputs({"--out": tmp_path / "a", "--manifest": tmp_path / "x" / ".." / "a"}, [])
    with pytest.raises(UsageError, match="--manifest and --out"):
        check_outputs({"--out": STDOUT, "--manifest": STDOUT}, [])


def test_what_cannot_be_written(tmp_path: Path) -> None:
    file, fifo = tmp_path / "file", tmp_path / "fifo"
    file.write_text("")
    os.mkfifo(fifo)
    for path, said in [
        (file / "rows", "is a file, not a folder"),
        (tmp_path, "is a folder; give --out the name of a file"),
        (fifo, "is no regular file"),
        (Path("/dev/null"), "is no regular file"),
    ]:
        with pytest.raises(FlywheelError, match=said):
            check_outputs({"--out": path}, [])
    with pytest.raises(FlywheelError, match="is the input; give --manifest another name"):
        check_outputs({"--out": tmp_path / "rows", "--manifest": file}, [file])
    check_outputs({"--out": tmp_path, "--manifest": tmp_path / "new" / "m.json"}, [], folder=True)


@pytest.mark.parametrize("name", ["result.json", "trajectory/llm_trajectory.jsonl", "config.json", "x.atraj"])
def test_a_file_of_a_run_below_the_input_is_never_replaced(tmp_path: Path, name: str) -> None:
    file = tmp_path / "jobs" / "job" / "t__1" / name
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    for option in ("--out", "--manifest"):
        with pytest.raises(FlywheelError, match=f"is part of the input; give {option} another name"):
            check_outputs({option: file}, [tmp_path / "jobs"])
    check_outputs({"--out": file}, [tmp_path / "others"])
    own = tmp_path / "jobs" / "rows.jsonl"
    own.write_text("")
    check_outputs({"--out": own, "--manifest": tmp_path / "jobs" / "results.jsonl"}, [tmp_path / "jobs"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FlywheelError, match="is not writable"):
        check_outputs({"--out": tmp_path / "rows"}, [])


def _fails(file: BinaryIO) -> None:
    file.write(b"row\n")
    raise FlywheelError


def test_stdout_gets_all_or_nothing(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with written(STDOUT) as file:
        file.write(b"row\n")
    assert capfdbinary.readouterr().out == b"row\n"
    with pytest.raises(FlywheelError), written(STDOUT) as file:
        _fails(file)
    assert capfdbinary.readouterr().out == b""
