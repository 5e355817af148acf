"""The deploy profile with real servers: Redis, PostgreSQL, a daemon, two Celery workers; datasets as of one machine."""

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import yaml

from tests.flow.conftest import WORDS
from tests.orchestration.servers import (
    CHECKOUT,
    SERVER_SECONDS,
    not_here,
    postgres,
    redis,
    server,
    started,
    tail,
    wait_for,
)
from trace_flywheel.flow.beside import SMALL_BYTES, Beside
from trace_flywheel.flow.children import may_have_children
from trace_flywheel.orchestration.helper import SMALL_ROLLOUTS
from trace_flywheel.orchestration.instance import instance_yaml
from trace_flywheel.sample.write import write_sample

DEPLOY = CHECKOUT / "deploy"
FLOW_SECONDS = 900
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


def published(home: Path) -> dict[str, bytes]:
    """The newest versions of all datasets, by path below `datasets`, and what names them."""
    files: dict[str, bytes] = {}
    for latest in sorted((home / "datasets").glob("*/latest")):
        version = latest.parent / latest.read_text().strip()
        for path in (latest, *sorted(p for p in version.rglob("*") if p.is_file())):
            files[path.relative_to(home / "datasets").as_posix()] = path.read_bytes()
    return files


def write_run(folder: Path, number: int, attempts: int = 4, words: int = 40) -> None:
    """Attempts at a task, of which every second passes; each says something of its own."""
    folder.mkdir(parents=True)
    rows = [
        {
            "task_id": f"task-{number % 5}",
            "trace_id": f"{folder.name}-a{attempt}",
            "messages": [
                {"role": "user", "content": f"Mend part {number % 5} of the table; write to ann{number}@example.com."},
                {"role": "assistant", "content": said(number * 101 + attempt, words)},
            ],
            "verdict": "pass" if attempt % 2 else "fail",
            "reward": attempt % 4 / 4,
            "grader": "tests",
        }
        for attempt in range(attempts)
    ]
    (folder / "results.json").write_text(json.dumps(rows))


def said(seed: int, words: int) -> str:
    chosen = ((at * (seed + 3) % 12, (at // 12 + seed) % 12) for at in range(words))
    return "Mended: " + " ".join(f"{WORDS[one]}{WORDS[two]}" for one, two in chosen)


def shown(program: str) -> list[str]:
    """The command of docs/scaling.md that starts a program."""
    lines = (CHECKOUT / "docs" / "scaling.md").read_text("utf-8").splitlines()
    (line,) = (line for line in lines if line.startswith(program))
    return shlex.split(line)


def few(options: list[str]) -> list[str]:
    """A worker's options with one run at a time, and two processes during the test."""
    assert options == ["--", "--concurrency", "8", "--max-tasks-per-child", "50"]
    return ["--", "--concurrency", "1", "--max-tasks-per-child", "4"]


def serves(port: int) -> bool:
    """Whether Dagster's pages are there."""
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=5) as answer:
        return "dagster_webserver_version" in json.loads(answer.read())
    return False


def beside(home: Path) -> tuple[bool, bool]:
    """Whether this process may have children, and whether work beside it is done in it."""
    return may_have_children(), Beside(home).call(os.getpid) == os.getpid()


@pytest.mark.deploy
def test_a_forked_worker_of_celery_works_alone(tmp_path: Path) -> None:
    if importlib.util.find_spec("billiard") is None:
        not_here("the extra `deploy` is not installed")
    pool = importlib.import_module("billiard.pool").Pool(1)
    try:
        assert pool.apply_async(beside, (tmp_path,)).get(SERVER_SECONDS) == (False, True)
    finally:
        pool.terminate()


@pytest.mark.slow
@pytest.mark.deploy
def test_two_workers_give_the_datasets_of_one_machine_byte_for_byte(tmp_path: Path) -> None:
    """Found, read and published by sensors. One folder, and with it the lake, is large enough for work beside Dagster's
    process. One worker forks, and may have no children; the other has its only run in its own process, and may."""
    for package in ("dagster_celery", "dagster_postgres", "redis"):
        if importlib.util.find_spec(package) is None:
            not_here("the extra `deploy` is not installed")
    jobs, runs = tmp_path / "jobs", tmp_path / "more" / "runs"
    write_sample(jobs)
    for number in range(8):
        write_run(runs / f"r{number:02d}", number)
    write_run(runs / "large", 8, attempts=SMALL_ROLLOUTS + 1, words=4_500)
    assert (runs / "large" / "results.json").stat().st_size > SMALL_BYTES
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("FLYWHEEL_", "DAGSTER_"))}
    environment |= {
        "PYTHONPATH": str(CHECKOUT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "FLYWHEEL_ROOTS": f'["{jobs}", "{tmp_path / "more"}"]',
        "FLYWHEEL_HOME": str(tmp_path / "local"),
    }
    refresh = [sys.executable, "-m", "trace_flywheel.cli.main", "refresh"]
    subprocess.run(refresh, env=environment, check=True, cwd=tmp_path, capture_output=True, timeout=FLOW_SECONDS)
    wanted = published(tmp_path / "local")
    assert len([name for name in wanted if name.endswith("/latest")]) == 6
    run_folders = list((tmp_path / "local" / "lake" / "rollout_index").iterdir())
    assert len(run_folders) >= 12

    home, dagster_home = tmp_path / "home", tmp_path / "dagster"
    dagster_home.mkdir()
    shutil.copy(DEPLOY / "dagster.yaml", dagster_home)
    (tmp_path / "deploy").symlink_to(DEPLOY)
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
        worker = shown("dagster-celery worker start")
        at = worker.index("--")
        commands = {
            "forked": [*worker[:at], "-n", "forked", *few(worker[at:])],
            "solo": [*worker[:at], "-n", "solo", "--", "--pool", "solo"],
            "daemon": shown("dagster-daemon"),
        }
        logs = {name: tmp_path / f"{name}.log" for name in commands}
        running = {
            name: stack.enter_context(started(command, logs[name], env=environment, cwd=tmp_path))
            for name, command in commands.items()
        }

        pages = shown("dagster-webserver")
        with server(
            lambda port: [*pages[:-1], str(port)], serves, tmp_path / "pages.log", env=environment, cwd=tmp_path
        ):
            pass

        def done() -> bool:
            for name, process in running.items():
                assert process.poll() is None, f"{name} ended:\n{tail(logs[name])}"
            return published(home) == wanted

        def why() -> str:
            now = published(home)
            differ = sorted(name for name in now.keys() | wanted.keys() if now.get(name) != wanted.get(name))
            return "\n".join([f"these differ: {differ}", *(f"{name}:\n{tail(log)}" for name, log in logs.items())])

        wait_for(done, FLOW_SECONDS, "the datasets of one machine", why)
    taken = {name: logs[name].read_text().count("received") for name in ("forked", "solo")}
    assert all(taken.values()), taken
    assert sum(taken.values()) >= len(run_folders) + 1, "each folder is a run, and so is the publication"
