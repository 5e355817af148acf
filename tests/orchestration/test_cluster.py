"""The deploy profile with real servers: Redis, PostgreSQL, a daemon, two Celery workers; datasets as of one machine."""

import getpass
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from trace_flywheel.orchestration.instance import instance_yaml
from trace_flywheel.sample.write import write_sample

CHECKOUT = Path(__file__).parents[2]
DEPLOY = CHECKOUT / "deploy"
SERVER_SECONDS, FLOW_SECONDS = 120, 1200
"""Generous: two busy cores, sensors that look every 30 and 60 seconds."""


def test_the_profile_differs_from_the_local_settings_in_storage_and_launcher_alone() -> None:
    local = yaml.safe_load(instance_yaml(".flywheel/dagster"))
    cluster = yaml.safe_load((DEPLOY / "dagster.yaml").read_text())
    for name in ("storage", "local_artifact_storage", "compute_logs"):
        local.pop(name)
        cluster.pop(name, None)
    assert cluster.pop("run_launcher")["class"] == "CeleryRunLauncher"
    assert cluster["concurrency"]["runs"].pop("max_concurrent_runs") > local["concurrency"]["runs"].pop(
        "max_concurrent_runs"
    )
    assert cluster["run_monitoring"].pop("start_timeout_seconds") > local["run_monitoring"].pop("start_timeout_seconds")
    assert cluster == local, "limits on runs, telemetry and retention are the same"


def test_the_worker_settings_are_nested() -> None:
    config = yaml.safe_load((DEPLOY / "celery.yaml").read_text())["execution"]["config"]
    launcher = yaml.safe_load((DEPLOY / "dagster.yaml").read_text())["run_launcher"]["config"]
    assert {name: config[name] for name in ("broker", "backend")} == {
        name: launcher[name] for name in ("broker", "backend")
    }


def not_here(reason: str) -> NoReturn:
    """Skip, or fail where `make test-cluster` asked for more than one machine."""
    if os.environ.get("CLUSTER_REQUIRED"):
        pytest.fail(reason)
    pytest.skip(reason)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.5)
    pytest.fail(f"not within {seconds} s: {what}")


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def started(
    command: list[str], log: Path, end: signal.Signals = signal.SIGTERM, **more: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own; ended with a signal, and by force, children too, where that is not enough."""
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True, **more)
        try:
            yield process
        finally:
            process.send_signal(end)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


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
    programs, port = postgres_programs(), free_port()
    user = "postgres" if getpass.getuser() == "root" else getpass.getuser()
    lent = ["runuser", "-u", user, "--"] if user == "postgres" else []
    with tempfile.TemporaryDirectory(prefix="flywheel-pg-") as name:
        place = Path(name)
        if lent:
            shutil.chown(place, user)
        initdb = [*lent, str(programs / "initdb"), "-D", f"{place}/data", "-U", "dagster", "-A", "trust", "-N"]
        subprocess.run(initdb, check=True, capture_output=True, cwd=place)
        settings = ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1"]
        server = [*lent, str(programs / "postgres"), "-D", f"{place}/data", "-p", str(port), "-k", name, *settings]
        with started(server, folder / "postgres.log", signal.SIGINT, cwd=place):
            wait_for(lambda: answers(port), SERVER_SECONDS, "PostgreSQL answers")
            yield f"postgresql+psycopg2://dagster@127.0.0.1:{port}/postgres"


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    program, port = shutil.which("redis-server"), free_port()
    if program is None:
        not_here("Redis is not installed")
    command = [str(program), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with started(command, folder / "redis.log"):
        wait_for(lambda: answers(port), SERVER_SECONDS, "Redis answers")
        yield f"redis://127.0.0.1:{port}"


def published(home: Path) -> dict[str, bytes]:
    """The newest versions of all datasets, by path below `datasets`, and what names them."""
    files: dict[str, bytes] = {}
    for latest in sorted((home / "datasets").glob("*/latest")):
        version = latest.parent / latest.read_text().strip()
        for path in (latest, *sorted(p for p in version.rglob("*") if p.is_file())):
            files[path.relative_to(home / "datasets").as_posix()] = path.read_bytes()
    return files


def write_run(folder: Path, number: int) -> None:
    """Four attempts at a task, of which every second passes."""
    folder.mkdir(parents=True)
    rows = [
        {
            "task_id": f"task-{number % 5}",
            "trace_id": f"{folder.name}-a{attempt}",
            "messages": [
                {"role": "user", "content": f"Mend part {number % 5} of the table; write to ann{number}@example.com."},
                {
                    "role": "assistant",
                    "content": f"Mended in {attempt} steps: {' '.join(map(str, range(number, 40)))}.",
                },
            ],
            "verdict": "pass" if attempt % 2 else "fail",
            "reward": attempt / 4,
            "grader": "tests",
        }
        for attempt in range(4)
    ]
    (folder / "results.json").write_text(json.dumps(rows))


@pytest.mark.slow
@pytest.mark.deploy
def test_two_workers_give_the_datasets_of_one_machine_byte_for_byte(tmp_path: Path) -> None:
    for package in ("dagster_celery", "dagster_postgres", "redis"):
        if importlib.util.find_spec(package) is None:
            not_here("the extra `deploy` is not installed")
    jobs = tmp_path / "jobs"
    write_sample(jobs)
    for number in range(12):
        write_run(tmp_path / "more" / "runs" / f"r{number:02d}", number)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("FLYWHEEL_", "DAGSTER_"))}
    environment |= {
        "PYTHONPATH": str(CHECKOUT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "FLYWHEEL_ROOTS": f'["{jobs}", "{tmp_path / "more"}"]',
        "FLYWHEEL_HOME": str(tmp_path / "local"),
    }
    refresh = [sys.executable, "-m", "trace_flywheel.cli.main", "refresh"]
    subprocess.run(refresh, env=environment, check=True, cwd=tmp_path, capture_output=True)
    wanted = published(tmp_path / "local")
    assert len([name for name in wanted if name.endswith("/latest")]) == 6

    home, dagster_home = tmp_path / "home", tmp_path / "dagster"
    dagster_home.mkdir()
    shutil.copy(DEPLOY / "dagster.yaml", dagster_home)
    with ExitStack() as stack:
        broker = stack.enter_context(redis(tmp_path))
        environment |= {
            "FLYWHEEL_HOME": str(home),
            "FLYWHEEL_AUTOMATION__START": "true",
            "FLYWHEEL_INGEST__QUIET_SECONDS": "0",
            "DAGSTER_HOME": str(dagster_home),
            "DAGSTER_POSTGRES_URL": stack.enter_context(postgres(tmp_path)),
            "DAGSTER_CELERY_BROKER": f"{broker}/0",
            "DAGSTER_CELERY_BACKEND": f"{broker}/1",
        }
        work = ["dagster-celery", "worker", "start", "-A", "dagster_celery.app", "-y", str(DEPLOY / "celery.yaml")]
        running = []
        logs = [tmp_path / f"worker-{number}.log" for number in range(2)]
        for number, log in enumerate(logs):
            command = [*work, "-n", f"w{number}", "--", "--concurrency", "1"]
            running.append(stack.enter_context(started(command, log, env=environment, cwd=tmp_path)))
        daemon = ["dagster-daemon", "run", "-w", str(DEPLOY / "workspace.yaml")]
        log = tmp_path / "daemon.log"
        running.append(stack.enter_context(started(daemon, log, signal.SIGINT, env=environment, cwd=tmp_path)))

        def done() -> bool:
            for process in running:
                assert process.poll() is None, f"{process.args}: ended; its log is in {tmp_path}"
            return published(home) == wanted

        wait_for(done, FLOW_SECONDS, "the datasets of one machine")
    taken = [log.read_text().count("received") for log in logs]
    assert all(taken), taken
    assert sum(taken) >= 12 + 1, "each folder is a run, and so is the publication"
