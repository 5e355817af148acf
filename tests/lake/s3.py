"""A real S3 server for tests, and a door in front of it where requests meet what networks and servers do to them."""

import http.client
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NamedTuple
from urllib.parse import unquote

from tests.conftest import missing
from trace_flywheel.flow import tables
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.datasets import make
from trace_flywheel.flow.home import lake_of, shared
from trace_flywheel.flow.ingest import ingest
from trace_flywheel.flow.names import every
from trace_flywheel.flow.watch import watch
from trace_flywheel.lake.index import index_table
from trace_flywheel.lake.objects import Objects
from trace_flywheel.lake.parts import write_table
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.settings import Settings

SERVER_SECONDS = 120
HOP = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive"})
"""Headers that belong to one connection."""


@contextmanager
def s3_server(log: Path) -> Iterator[str]:
    """The address of an S3 server, a process of its own that keeps everything in memory."""
    for package in ("obstore", "moto", "flask"):
        if importlib.util.find_spec(package) is None:
            missing("obstore and moto[server] are not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream)
    address = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + SERVER_SECONDS
        while True:
            try:
                urllib.request.urlopen(address, timeout=5).close()
                break
            except (urllib.error.URLError, OSError):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.2)
        yield address
    finally:
        process.kill()
        process.wait()


class Request(NamedTuple):
    """What arrived: its number, from 1, and what it asks."""

    number: int
    method: str
    path: str
    """Decoded, with the bucket, without the query."""
    query: str


Rule = Callable[[Request], str | Callable[[], Any] | None]
"""What happens to a request. None: it is passed on. A status as "503": answered so. "cut": half of what is sent is
read, then the connection ends. "short": half of the answer is sent. "lost": carried out, never answered. "hang": no
answer for a second, then none. A function: called, and the request is never answered."""


class Door:
    """Passes requests on to a server, as `rule` says; keeps what arrived."""

    def __init__(self, behind: str) -> None:
        self.rule: Rule = lambda _: None
        self.seen: list[Request] = []
        self._lock, door = Lock(), self
        host, _, port = behind.removeprefix("http://").partition(":")

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def _answer(self) -> None:
                path, _, query = self.path.partition("?")
                with door._lock:
                    request = Request(len(door.seen) + 1, self.command, unquote(path), query)
                    door.seen.append(request)
                action = door.rule(request)
                size = int(self.headers.get("content-length", 0))
                if action == "cut":
                    self.rfile.read(size // 2)
                    return self._gone()
                body = self.rfile.read(size)
                if callable(action):
                    action()
                    return self._gone()
                if action == "hang":
                    time.sleep(1)
                    return self._gone()
                if action is not None and action.isdigit():
                    return self._say(int(action), [], b"<Error><Code>Fault</Code><Message>told to</Message></Error>")
                there = http.client.HTTPConnection(host, int(port), timeout=60)
                there.request(self.command, self.path, body, dict(self.headers))
                answer = there.getresponse()
                text, headers = answer.read(), [(k, v) for k, v in answer.getheaders() if k.lower() not in HOP]
                if self.command == "HEAD":
                    headers.append(("Content-Length", answer.headers.get("Content-Length", "0")))
                there.close()
                if action == "lost":
                    return self._gone()
                return self._say(answer.status, headers, text, cut=action == "short")

            def _say(self, status: int, headers: list[tuple[str, str]], text: bytes, cut: bool = False) -> None:
                self.send_response_only(status)
                for name, value in headers:
                    self.send_header(name, value)
                if self.command != "HEAD":
                    self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text[: len(text) // 2] if cut else text)
                if cut:
                    self._gone()

            def _gone(self) -> None:
                self.close_connection = True
                with suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def write_run(folder: Path, name: str, rewards: tuple[float, ...] = (0.0, 0.0, 1.0, 1.0)) -> None:
    rows = [
        {
            "task_id": f"task-{name}",
            "trace_id": f"{name}-a{attempt}",
            "messages": [
                {"role": "user", "content": f"Mend part {name} of the table and tell ann@example.com."},
                {
                    "role": "assistant",
                    "content": f"Mended {name} in {attempt} steps: {' '.join(map(str, range(attempt, 30)))}.",
                },
            ],
            "verdict": "pass" if reward else "fail",
            "reward": reward,
            "grader": "tests",
        }
        for attempt, reward in enumerate(rewards)
    ]
    (folder / "jobs" / "runs" / name).mkdir(parents=True, exist_ok=True)
    (folder / "jobs" / "runs" / name / "results.json").write_text(json.dumps(rows))


def datasets(settings: Settings) -> dict[str, bytes]:
    top = settings.home / "datasets"
    return {p.relative_to(top).as_posix(): p.read_bytes() for p in top.rglob("*") if p.is_file()}


def newest(settings: Settings) -> dict[str, bytes]:
    """The newest versions and the files that name them."""
    files = datasets(settings)
    named = {n.split("/")[0]: text.decode().strip() for n, text in files.items() if n.endswith("/latest")}
    return {n: text for n, text in files.items() if n.endswith("/latest") or n.split("/")[1] == named[n.split("/")[0]]}


def run_flow(settings: Settings) -> int:
    """Everything that a refresh makes, without Dagster; how many runs were ingested."""
    with shared(settings):
        lake = lake_of(settings)
        seen = watch(settings, lake)
        ingest(seen.todo, lake, settings, seen.inputs, workers=1)
        curation = Curation(lake, settings, seen.inputs)
        tables.grouped_advantages(curation)
        tables.depth_classifier(curation)
        for kind, recipe in every(settings):
            make(curation, kind, recipe)
    return len(seen.todo)


def environment(settings: Settings, url: str) -> dict[str, str]:
    return {
        "FLYWHEEL_HOME": str(settings.home),
        "FLYWHEEL_ROOTS": json.dumps([str(root) for root in settings.roots]),
        "FLYWHEEL_LAYOUTS": '["messages"]',
        "FLYWHEEL_LAKE__REMOTE": url,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


def process(settings: Settings, url: str, *words: str) -> subprocess.Popen[str]:
    """`flywheel WORDS` over a home of the store, a process of its own."""
    command = [sys.executable, "-m", "trace_flywheel.cli.main", *words]
    return subprocess.Popen(
        command,
        env={**os.environ, **environment(settings, url)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def pointer(request: Request, end: str = "") -> bool:
    """Whether a pointer (`latest`, `sidecar.json`, …) is put."""
    return request.method == "PUT" and "/pointers/" in request.path and request.path.endswith(end)


def partition(settings: Settings, answer: str, run_id: str = "jobs/a") -> None:
    """A partition of the index asset, made by hand through the lake's own writer."""
    lake = lake_of(settings)
    with lake.generation("rollout_index", run_id) as folder:
        part = write_table(folder / "part-00000.parquet", index_table([]))
        drops = [Drop(Stage.READ, "purged", {"by": answer}, run_id=run_id)]
        staged = lake.stage(
            folder, "rollout_index", run_id, parts=[part], drops=drops, entered=1, inputs_digest=answer,
            source_fingerprint=answer,
        )  # fmt: skip
        lake.land([staged])


def stored_text(url: str, folder: Path) -> Path:
    """A copy of every object that stands below a home's address."""
    store = Objects(url)
    for name in store.listed(""):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(store.read(name)[0])
    return folder
