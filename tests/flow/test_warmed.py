"""What the server of a refresh has ready for its processes, and that it serves where it cannot have it ready."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
from multiprocessing import forkserver
from trace_flywheel.flow.fork_server import start_ahead
from trace_flywheel.flow.workers import run_tasks
if __name__ == "__main__":
    from tests.flow.test_warmed import ready
    start_ahead("{module}")
    print(*run_tasks(ready, None, range(1), 2, patient=0.0), *run_tasks(ready, None, range(1), 2, patient=0.0))
"""
FAILS = """
from trace_flywheel.curation import machine_code
from trace_flywheel.redaction import redact
def fails(*_):
    raise RuntimeError("no")
redact.redactor = machine_code.ready = fails
import trace_flywheel.flow.warmed
"""


def ready(_: None, __: int) -> tuple[int, bool]:
    """Redactors that this process has without having built any, and whether its server was started ahead."""
    from multiprocessing import forkserver

    from trace_flywheel.redaction import redact

    server = forkserver._forkserver  # type: ignore[attr-defined]
    return redact._redactor.cache_info().currsize, server._forkserver_pid is None


@pytest.mark.parametrize(("module", "redactors"), [("trace_flywheel.flow.warmed", 1), ("fails", 0)])
def test_processes_have_the_built_in_rules_and_none_where_they_cannot_be_built(
    tmp_path: Path, module: str, redactors: int
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(module=module))
    (tmp_path / "fails.py").write_text(FAILS)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == f"({redactors}, True) ({redactors}, True)", done.stderr
    assert done.stderr == ""
