"""How a hint calls this program."""

import sys
from pathlib import Path

import pytest

from trace_flywheel.cli.options import program


def test_a_hint_calls_the_program_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / ".venv" / "bin" / "flywheel"
    own.parent.mkdir(parents=True)
    own.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(own)])
    monkeypatch.setenv("PATH", "/usr/bin")
    assert program() == ".venv/bin/flywheel"
    monkeypatch.setenv("PATH", str(own.parent))
    assert program() == "flywheel"
    monkeypatch.setattr(sys, "argv", ["-m"])
    assert program() == "flywheel"
