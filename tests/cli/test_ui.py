"""`flywheel ui` before it serves; tests/ui drives what it serves."""

import socket
from pathlib import Path

import pytest

from trace_flywheel.cli.main import main


def test_a_port_in_use_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["ui", "--port", str(port), "--home", str(tmp_path / "home")]) == 1
    assert capsys.readouterr().err == f"flywheel: port {port} is in use on 127.0.0.1; give another with --port\n"
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("port", ["0", "70000", "http"])
def test_a_port_that_is_none_is_wrong_usage(port: str) -> None:
    assert main(["ui", "--port", port]) == 2
