"""`flywheel ui`: webserver and daemon of Dagster on 127.0.0.1, as one child that stops when this process does."""

import os
import signal
import socket
import subprocess
import sys
import time
from typing import Annotated

import typer

from trace_flywheel.cli.options import Config, Home, settings_of
from trace_flywheel.records.errors import FlywheelError

ADDRESS = "127.0.0.1"
STOP_SECONDS = 30
"""Dagster needs a few seconds to end its four processes; after this it is killed."""


def ui(
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of the web pages.")] = 3000,
    home: Home = None,
    config: Config = None,
) -> None:
    settings = settings_of(home, config)
    if _answers(port):
        raise FlywheelError(f"port {port} is in use on {ADDRESS}; give another with --port")
    from trace_flywheel.orchestration.instance import instance, served_home
    from trace_flywheel.orchestration.lost import end_lost_runs

    folder = served_home(settings.home)
    if lost := end_lost_runs(instance(settings.home)):
        print(f"{len(lost)} runs whose process is gone are marked as failed", file=sys.stderr)
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(folder),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "FLYWHEEL_HOME": str(settings.home.absolute()),
    }
    if config is not None:
        environment["FLYWHEEL_CONFIG"] = str(config.absolute())
    # Dagster warns that `dagster dev` will be `dg dev` one day; the pinned release has it.
    command = [sys.executable, "-W", "ignore", "-m", "dagster", "dev", "-w", str(folder / "workspace.yaml")]
    command += ["-h", ADDRESS, "-p", str(port), "--log-level", "error"]
    raise typer.Exit(_serve(command, environment, port, str(settings.home)))


def _serve(command: list[str], environment: dict[str, str], port: int, home: str) -> int:
    # A shell that starts us in the background ignores SIGINT for us, and a child inherits that: Dagster could then
    # only be killed. A handler of our own is reset to the default in the child.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A session of its own: Ctrl-C reaches it through us, once, and Dagster's orderly end is not interrupted.
    child = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        while child.poll() is None and not _answers(port):
            time.sleep(0.2)
        if child.poll() is None:
            print(f"Dagster: http://{ADDRESS}:{port}  (home {home}; stop with Ctrl-C)", file=sys.stderr, flush=True)
        return 1 if child.wait() else 0
    except KeyboardInterrupt:
        return _stop(child)


def _stop(child: subprocess.Popen[bytes]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    child.send_signal(signal.SIGINT)
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return 1
    return 0


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((ADDRESS, port)) == 0
