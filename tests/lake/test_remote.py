"""Lake and datasets in an object store, against a real server: same bytes, atomic for readers, safe for two writers."""

import importlib.util
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing
from tests.harden.erasures import holding
from trace_flywheel.cli.main import main
from trace_flywheel.cli.refresh import refreshed
from trace_flywheel.flow import tables
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.datasets import make
from trace_flywheel.flow.home import lake_of, remote_of, shared
from trace_flywheel.flow.ingest import ingest
from trace_flywheel.flow.names import every
from trace_flywheel.flow.watch import watch
from trace_flywheel.lake.objects import Objects, RemoteError
from trace_flywheel.lake.pointers import folder_of, pointers
from trace_flywheel.lake.quarantine import quarantine, quarantines, release
from trace_flywheel.lake.remote import Remote
from trace_flywheel.lake.withdrawn import in_force, note
from trace_flywheel.records.grading import Withdrawal
from trace_flywheel.settings import Settings, SettingsError, load_settings

pytestmark = pytest.mark.xdist_group("s3")
SERVER_SECONDS = 120


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server that keeps everything in memory."""
    for package in ("obstore", "moto", "flask"):
        if importlib.util.find_spec(package) is None:
            missing("obstore and moto[server] are not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    log = tmp_path_factory.mktemp("s3") / "log"
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
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.3)
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


@pytest.fixture
def url(server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A bucket of its own."""
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    bucket = request.node.name.replace("_", "-")[:50].strip("-")
    urllib.request.urlopen(urllib.request.Request(f"{server}/{bucket}", method="PUT")).close()
    return f"s3://{bucket}/team one/home"


@pytest.fixture
def home(tmp_path: Path) -> Callable[..., Settings]:
    def make(name: str, remote: str = "", **more: Any) -> Settings:
        return load_settings(
            home=tmp_path / name,
            roots=(tmp_path / "jobs",),
            ingest={"workers": 1},
            lake={"remote": remote},
            layouts=("messages",),
            **more,
        )

    return make


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


def stored(url: str, settings: Settings) -> dict[str, str]:
    return Objects(url).listed("")


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


def newest(settings: Settings) -> dict[str, bytes]:
    """The newest versions and the files that name them."""
    files = datasets(settings)
    named = {n.split("/")[0]: text.decode().strip() for n, text in files.items() if n.endswith("/latest")}
    return {n: text for n, text in files.items() if n.endswith("/latest") or n.split("/")[1] == named[n.split("/")[0]]}


def test_another_machine_finds_the_work_done_and_publishes_the_same_bytes(
    url: str, home: Callable[..., Settings], tmp_path: Path
) -> None:
    write_run(tmp_path, "a")
    write_run(tmp_path, "b/c d")
    first, second, local = home("first", url), home("second", url), home("local")
    assert run_flow(first) == 2
    run_flow(local)
    assert datasets(first) == datasets(local)
    assert len([name for name in datasets(local) if name.endswith("/latest")]) == 5  # its rows are of one depth: no mix

    assert run_flow(second) == 0
    assert datasets(second) == datasets(local)
    assert not any((second.home / "lake" / "redacted_rollouts").glob("*/*/part-*")), "text stays until it is read"

    write_run(tmp_path, "e")
    assert run_flow(second) == 1, "the text of what is published again is fetched"
    assert run_flow(first) == 0
    run_flow(local)
    assert newest(second) == newest(first) == newest(local)
    texts = {name.rsplit("/", 2)[0] for name in stored(url, first) if name.startswith("lake/graded_traces/")}
    assert len(texts) == 3, "one generation of each run"


@pytest.mark.slow
def test_a_refresh_of_one_machine_leaves_the_next_nothing_to_do(
    url: str, home: Callable[..., Settings], tmp_path: Path
) -> None:
    write_run(tmp_path, "a")
    first, second = home("first", url), home("second", url)
    assert refreshed(first).document["runs"]["ingested"] == 1
    assert refreshed(second).document["runs"] == {"found": 1, "ingested": 0, "unchanged": 1, "quarantined": 0}
    assert not (second.home / "dagster").exists(), "nothing was run"
    assert datasets(second) == datasets(first)


def test_of_two_writers_one_is_told(url: str, home: Callable[..., Settings]) -> None:
    first, second = home("first", url), home("second", url)
    with shared(first):
        note(lake_of(first), Withdrawal("wrong", "recompute", "g", None, None, None))
    with shared(second):
        assert [one.grader for one in in_force(lake_of(second))] == ["g"], "what one withdrew is withdrawn for all"
    note(lake_of(first), Withdrawal("bad", "recompute", "h", None, None, None))
    note(lake_of(second), Withdrawal("worse", "recompute", "i", None, None, None))
    Remote(url, first.home).push()
    with pytest.raises(RemoteError, match="another writer changed it"):
        Remote(url, second.home).push()
    with pytest.raises(RemoteError, match="changed here and in"):
        Remote(url, second.home).pull()
    (second.home / "lake" / "withdrawn.jsonl").unlink()
    Remote(url, second.home).pull()
    assert [one.grader for one in in_force(lake_of(second))] == ["g", "h"]


def partition(settings: Settings, answer: str) -> None:
    """A partition of the index asset, made by hand through the lake's own writer."""
    from trace_flywheel.lake.index import index_table
    from trace_flywheel.lake.parts import write_table

    lake = lake_of(settings)
    with lake.generation("rollout_index", "jobs/a") as folder:
        part = write_table(folder / "part-00000.parquet", index_table([]))
        lake.commit(
            folder, "rollout_index", "jobs/a", parts=[part], drops=[], entered=0,
            inputs_digest=answer, source_fingerprint=answer,
        )  # fmt: skip


def test_a_writer_that_is_killed_before_the_pointer_changes_nothing_for_readers(
    url: str, home: Callable[..., Settings]
) -> None:
    first, second = home("first", url), home("second", url)
    with shared(first):
        partition(first, "one")
    objects = set(stored(url, first))
    (pointer,) = [(path, text) for path, text in pointers(first.home) if path.endswith("sidecar.json")]
    folder = folder_of(*pointer)
    assert folder is not None
    half = folder.rsplit("/", 1)[0] + "/0000000000000000"
    shutil.copytree(first.home / folder, first.home / half)
    Remote(url, first.home)._create(half)
    assert set(stored(url, first)) > objects
    with shared(second):
        found = lake_of(second).sidecar("rollout_index", "jobs/a")
        assert found is not None
        assert found.inputs_digest == "one"
        assert f"lake/rollout_index/jobs%2Fa/{found.generation}" == folder
    assert [p.name for p in (second.home / "lake" / "rollout_index" / "jobs%2Fa").iterdir() if p.is_dir()] == [
        found.generation
    ]


def test_what_one_home_removes_goes_everywhere(url: str, home: Callable[..., Settings]) -> None:
    first, second = home("first", url), home("second", url)
    with shared(first):
        partition(first, "one")
        quarantine(lake_of(first), "jobs/b", "broken", "f")
    with shared(second):
        assert [q.run_id for q in quarantines(lake_of(second))] == ["jobs/b"]
    with shared(first):
        release(lake_of(first), "jobs/b")
        shutil.rmtree(lake_of(first).folder("rollout_index", "jobs/a"))
    with shared(second):
        assert quarantines(lake_of(second)) == ()
        assert lake_of(second).sidecars("rollout_index") == ()
    assert [name for name in stored(url, first) if "jobs" in name] == []


def test_what_one_home_erases_no_other_home_keeps(
    url: str, home: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in older versions, exports or gathered rows either, and a second erasure there adds to the first."""
    write_run(tmp_path, "a", (0.0, 0.25, 0.5, 1.0))
    first, second = home("first", url), home("second", url)
    assert run_flow(first) == 1
    run_flow(second)
    write_run(tmp_path, "b")
    assert run_flow(second) == 1  # the versions before are older ones now, here and there
    run_flow(first)
    words = ["export", "rl_dataset", "--format", "rl-prompts", "--out", str(second.home / "mine"), "--home"]
    assert main([*words, str(second.home)]) == 0
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(tmp_path / "jobs")]))
    monkeypatch.setenv("FLYWHEEL_LAYOUTS", json.dumps(["messages"]))
    monkeypatch.setenv("FLYWHEEL_LAKE__REMOTE", url)
    assert holding(second.home, "Mended a in 3 steps")
    assert main(["purge", "--trace", "a-a3", "--reason", "x", "--home", str(first.home)]) == 0
    assert holding(first.home, "Mended a in 3 steps") == []
    assert run_flow(second) == 0
    assert holding(second.home, "Mended a in 3 steps") == []
    assert holding(second.home, "a-a3") == []
    assert not (second.home / "mine").exists()
    assert newest(second) == newest(first)

    value = tmp_path / "value"
    value.write_text("Mended a in 2 steps")
    assert main(["purge", "--value-from", str(value), "--reason", "x", "--home", str(second.home)]) == 0
    run_flow(first)
    for one in (first, second):
        assert holding(one.home, "Mended a in 2 steps") == []
        assert holding(one.home, "Mended a in 0 steps")
    assert newest(second) == newest(first)
    third = home("third", url)
    run_flow(third)
    assert [holding(third.home, f"Mended a in {n} steps") for n in (2, 3)] == [[], []]
    assert newest(third) == newest(first)


def test_a_home_that_lost_its_lake_gets_it_back_and_takes_nothing_from_the_store(
    url: str, home: Callable[..., Settings]
) -> None:
    first = home("first", url)
    with shared(first):
        partition(first, "one")
    before = stored(url, first)
    shutil.rmtree(first.home / "lake")
    with shared(first):
        assert [s.inputs_digest for s in lake_of(first).sidecars("rollout_index")] == ["one"]
    assert stored(url, first) == before


def test_raw_text_is_private_in_every_copy(url: str, home: Callable[..., Settings], tmp_path: Path) -> None:
    write_run(tmp_path, "a")
    first, second = home("first", url), home("second", url)
    with shared(first):
        seen = watch(first, lake_of(first))
        ingest(seen.todo, lake_of(first), first, seen.inputs, workers=1)
    with shared(second):
        lake = lake_of(second)
        (sidecar,) = lake.sidecars("graded_traces")
        path = lake.part_path(sidecar, sidecar.parts[0])
    assert path.is_file()
    assert [oct(p.stat().st_mode & 0o777) for p in (path, path.parent)] == ["0o600", "0o700"]
    assert oct((second.home / "lake" / "graded_traces").stat().st_mode & 0o777) == "0o700"


def test_a_bucket_that_is_not_there_is_told_in_one_line(url: str, home: Callable[..., Settings]) -> None:
    with pytest.raises(RemoteError, match="s3://no-such-bucket") as told:
        Remote("s3://no-such-bucket/x", home("first").home).pull()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("text", ["bucket/prefix", "s3://", "http://x/y", "/lake"])
def test_what_is_no_address_of_a_bucket_is_refused(text: str, home: Callable[..., Settings]) -> None:
    with pytest.raises(SettingsError, match="remote"):
        home("first", text)


def test_without_the_package_the_setting_says_what_to_install(home: Callable[..., Settings]) -> None:
    if importlib.util.find_spec("obstore") is not None:
        pytest.skip("obstore is installed")
    with pytest.raises(RemoteError, match=r"trace-flywheel\[s3\]"):
        remote_of(home("first", "s3://bucket/prefix"))
    assert not home("first").home.exists()
