"""What a step prints stands on its page and goes on to the terminal."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PRINTING = """
import json, os, subprocess, sys
from pathlib import Path
import dagster as dg
from trace_flywheel.orchestration.instance import instance

@dg.op
def speaks():
    print("said é")
    os.write(1, b"written \\xff\\n")
    subprocess.run([sys.executable, "-c", "print('by a child')"])
    print("warned", file=sys.stderr)
    if {fails}:
        raise ValueError("no more")

@dg.job
def job():
    speaks()

folder = Path(sys.argv[1])
with instance(folder) as one:
    quiet = {{"loggers": {{"console": {{"config": {{"log_level": "CRITICAL"}}}}}}}}
    done = job.execute_in_process(instance=one, raise_on_error=False, run_config=quiet)
    captured = [event for event in done.all_events if event.event_type_value == "LOGS_CAPTURED"]
    log = [done.run_id, "compute_logs", captured[0].logs_captured_data.file_key]
    kept = one.compute_log_manager.get_log_data(log)
    told = [done.success, kept.stdout.decode("utf-8", "replace"), kept.stderr.decode()]
    (folder / "told").write_text(json.dumps([*told, one.compute_log_manager.is_capture_complete(log)]))
"""


def command(fails: bool, folder: Path) -> list[str]:
    return [sys.executable, "-c", PRINTING.format(fails=fails), str(folder)]


@pytest.mark.parametrize("fails", [False, True])
def test_it_is_kept_and_shown(fails: bool, tmp_path: Path) -> None:
    done = subprocess.run(command(fails, tmp_path), capture_output=True, timeout=120, check=True)
    assert done.stdout.decode() == "said é\nwritten \ufffd\nby a child\n"
    assert done.stderr.decode().splitlines()[-1] == "warned"
    assert json.loads((tmp_path / "told").read_text()) == [not fails, done.stdout.decode(), "warned\n", True]


def test_a_terminal_that_is_gone_fails_no_step(tmp_path: Path) -> None:
    process = subprocess.Popen(command(False, tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    process.communicate(timeout=120)
    assert json.loads((tmp_path / "told").read_text())[0] is True
