"""`flywheel stream` beside the process that writes the job: follows, goes on behind a cursor, ends as the job ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest

from trace_flywheel.flow import schemas

CHECKOUT = Path(__file__).parents[3]
WRITER = """
import json, os, socket, sys, time
from pathlib import Path
from tests.flow.token_jobs import token_trial
job = Path(sys.argv[1])
job.mkdir()
(job / "evaluation.json").write_text("{}")
(job / ".evaluation.lock").write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
for line in sys.stdin:
    name = line.strip()
    if name == "end":
        (job / "summary.json").write_text("{}")
        (job / ".evaluation.lock").unlink()
        break
    token_trial(job, name)
    print(name, flush=True)
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Writes the trials that it is told to, one name a line; `end` finishes the job."""
    command = [sys.executable, "-c", WRITER, str(tmp_path / "job")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=CHECKOUT, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        process.kill()


def tell(writer: subprocess.Popen[str], name: str) -> None:
    assert writer.stdin
    writer.stdin.write(name + "\n")
    writer.stdin.flush()


def streaming(job: Path, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trace_flywheel.cli.main", "stream", str(job), "--poll-interval", "0.05", *flags]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=CHECKOUT, stdout=pipe, stderr=pipe, text=True)


def test_a_job_is_followed_resumed_and_ends(tmp_path: Path, writer: subprocess.Popen[str]) -> None:
    check = jsonschema_rs.Draft202012Validator(schemas.document("rollout-stream.v1"))
    reader = streaming(tmp_path / "job", "--timeout", "60")
    assert reader.stdout
    tell(writer, "a__1")
    first = json.loads(reader.stdout.readline())
    check.validate(first)
    assert first["rollout"] == "a__1"
    os.kill(reader.pid, signal.SIGKILL)
    reader.communicate()
    tell(writer, "a__2")
    tell(writer, "a__3")
    tell(writer, "end")
    writer.wait()
    again = streaming(tmp_path / "job", "--timeout", "60", "--after", first["cursor"])
    rest = [json.loads(line) for line in again.communicate()[0].splitlines()]
    assert [record["rollout"] for record in rest] == ["a__2", "a__3"]
    assert again.returncode == 0
    for record in rest:
        check.validate(record)


def test_a_writer_that_dies_ends_the_stream_with_1(tmp_path: Path, writer: subprocess.Popen[str]) -> None:
    reader = streaming(tmp_path / "job", "--timeout", "60")
    tell(writer, "a__1")
    assert reader.stdout
    assert json.loads(reader.stdout.readline())["rollout"] == "a__1"
    writer.kill()
    writer.wait()
    reader.communicate()
    assert reader.returncode == 1


def test_a_writer_that_takes_its_time_ends_it_with_3(tmp_path: Path, writer: subprocess.Popen[str]) -> None:
    reader = streaming(tmp_path / "job", "--timeout", "0.2")
    reader.communicate()
    assert reader.returncode == 3
