"""Servers that a test starts for itself, on ports of their own, and ends with all their children."""

import ctypes
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

CHECKOUT = Path(__file__).parents[2]
SERVER_SECONDS = 180
PORTS = 3
"""Ports tried: another process may take one between the asking and the server's start."""
PR_SET_PDEATHSIG = 1


def not_here(reason: str) -> NoReturn:
    """Skip, or fail where `make test-cluster` asked for more than one machine."""
    if os.environ.get("CLUSTER_REQUIRED"):
        pytest.fail(reason)
    pytest.skip(reason)


def wait_for(
    condition: Callable[[], Any], seconds: float, what: str, why: Callable[[], str] = lambda: "", pause: float = 0.5
) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(pause)
    pytest.fail(f"not within {seconds} s: {what}. {why()}")


def tail(log: Path, lines: int = 30) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-lines:])


def _end_with_this_process() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def started(
    command: Sequence[str], log: Path, end: signal.Signals = signal.SIGTERM, **more: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own; ended with a signal, and by force, children too, where that is not enough."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=stream, start_new_session=True, preexec_fn=_end_with_this_process, **more
        )
    try:
        yield process
    finally:
        process.send_signal(end)
        with suppress(subprocess.TimeoutExpired):
            process.wait(15)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def server(command: Callable[[int], list[str]], ready: Callable[[int], bool], log: Path, **more: Any) -> Iterator[int]:
    """A server on a free port, which is given once the server says that it is ready."""
    for _ in range(PORTS):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        with started(command(port), log, signal.SIGINT, **more) as process:

            def answers(process: subprocess.Popen[bytes] = process, port: int = port) -> bool:
                return process.poll() is not None or ready(port)

            wait_for(answers, SERVER_SECONDS, log.stem, lambda: tail(log), pause=0.1)
            if process.poll() is None:
                yield port
                return
    pytest.fail(f"{log.stem} did not start:\n{tail(log)}")


def postgres_programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [
        Path(found) for found in [shutil.which("initdb")] if found
    ]
    if not found:
        not_here("PostgreSQL is not installed")
    return found[-1].parent


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """A database server of its own; its URL. PostgreSQL refuses to run as root, so root lends it to `postgres`."""
    programs, lent = postgres_programs(), {}
    with tempfile.TemporaryDirectory(prefix="flywheel-pg-") as place:
        if getpass.getuser() == "root":
            lent = {"user": "postgres", "group": "postgres", "extra_groups": []}
            shutil.chown(place, "postgres", "postgres")
        data = f"{place}/data"
        initdb = [str(programs / "initdb"), "-D", data, "-U", "dagster", "-A", "trust", "-N"]
        subprocess.run(initdb, check=True, capture_output=True, cwd=place, timeout=SERVER_SECONDS, **lent)
        settings = ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1"]

        def command(port: int) -> list[str]:
            return [str(programs / "postgres"), "-D", data, "-p", str(port), "-k", place, *settings]

        def ready(port: int) -> bool:
            asked = [str(programs / "pg_isready"), "-q", "-h", place, "-p", str(port)]
            return subprocess.run(asked, timeout=SERVER_SECONDS).returncode == 0

        with server(command, ready, folder / "postgres.log", cwd=place, **lent) as port:
            yield f"postgresql+psycopg2://dagster@127.0.0.1:{port}/postgres"


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        not_here("Redis is not installed")

    def command(port: int) -> list[str]:
        return [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]

    def ready(port: int) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as asked:
            asked.sendall(b"PING\r\n")
            return asked.recv(7) == b"+PONG\r\n"
        return False

    with server(command, ready, folder / "redis.log") as port:
        yield f"redis://127.0.0.1:{port}"
