"""An object store that is slow, refuses, is killed for or cut off: the old state or the new one, and one clear line."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver
from pathlib import Path

import pytest

from tests.lake.s3 import (
    Door,
    Request,
    newest,
    partition,
    pointer,
    process,
    run_flow,
    write_run,
)
from trace_flywheel.flow import beside, ingest
from trace_flywheel.flow.home import bring_up_to_date, lake_of, shared
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.watch import watch
from trace_flywheel.lake import objects
from trace_flywheel.lake.objects import Objects, RemoteError
from trace_flywheel.lake.quarantine import quarantines
from trace_flywheel.lake.remote import Remote
from trace_flywheel.orchestration import helper
from trace_flywheel.settings import Settings

pytestmark = pytest.mark.xdist_group("s3")
Homes = Callable[..., Settings]


def told(settings: Settings, url: str, *words: str) -> str:
    """What a command that fails says: one line, exit code 1."""
    done = process(settings, url, *words)
    _, said = done.communicate(timeout=300)
    lines = [line for line in said.splitlines() if not line.startswith(("ingesting", "curating"))]
    assert (done.returncode, len(lines)) == (1, 1), said
    return lines[0]


@pytest.fixture
def new_fork_server() -> Iterator[None]:
    """One that knows the store: a fork server keeps the environment in which it was started."""
    forkserver._forkserver._stop()
    yield
    forkserver._forkserver._stop()


@pytest.mark.usefixtures("new_fork_server")
def test_a_step_in_another_process_reaches_the_store_too(
    url: str, home: Homes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where runs are large the lake goes, with its store, to a process beside Dagster's."""
    write_run(tmp_path, "a")
    first, second = home("first", url), home("second", url)
    with shared(first):
        ingest.ingest(watch(first, lake_of(first)).todo, lake_of(first), first, SideInputs(), workers=1)
    monkeypatch.setattr(beside, "SMALL_BYTES", -1)
    bring_up_to_date(second)
    shutil.rmtree(second.home / "lake" / "rollout_index")
    runs = watch(second, lake_of(second)).todo
    shared_parts = lake_of(second), second, SideInputs(), None
    (made,) = helper.over_runs(second, runs, ingest.all_of, shared_parts, (ingest.rollout_index, runs))
    assert (made.status, made.sidecar) == ("made", lake_of(first).sidecar("rollout_index", "jobs/runs/a"))


def whole(settings: Settings) -> list[str]:
    """What the partitions of the index that a home has say, each read to its end."""
    lake = lake_of(settings)
    return [drop.evidence["by"] for sidecar in lake.sidecars("rollout_index") for drop in lake.drops(sidecar)]


@pytest.mark.slow
def test_a_writer_killed_between_objects_and_pointer_leaves_the_state_before(
    url: str, door: Door, home: Homes, tmp_path: Path
) -> None:
    write_run(tmp_path, "a")
    first, second, local = home("first", url), home("second", url), home("local")
    run_flow(first)
    before = newest(first)
    write_run(tmp_path, "b")
    writer = process(first, url, "refresh")
    door.rule = lambda r: writer.kill if pointer(r, "/latest") else None
    assert writer.wait(300) == -signal.SIGKILL
    door.rule = lambda _: None
    objects = {name.rsplit("/data-", 1)[0] for name in Objects(url).listed("datasets/") if "/data-" in name}
    assert len(objects) > len([name for name in before if name.endswith("/latest")]), "a version without a pointer"
    with shared(second):
        assert newest(second) == before
    run_flow(first)
    run_flow(local)
    third = home("third", url)
    with shared(third):
        assert newest(third) == newest(first) == newest(local)


@pytest.mark.slow
def test_two_writers_at_once_end_in_one_state(url: str, home: Homes, tmp_path: Path) -> None:
    """Each knows runs of its own. Who comes second is told so, in a line, and adds to the first's when asked again."""
    for name in "ab":
        write_run(tmp_path / name, name)
    homes = [home(f"home-{name}", url).model_copy(update={"roots": (tmp_path / name,)}) for name in "ab"]
    writers = [process(one, url, "refresh") for one in homes]
    for writer in writers:
        _, said = writer.communicate(timeout=300)
        assert writer.returncode == 0 or (writer.returncode == 1 and "refresh again" in said), said
        assert "Traceback" not in said
    for one in (homes[0], homes[1], homes[0]):
        run_flow(one)
    local = home("local").model_copy(update={"roots": (tmp_path / "a", tmp_path / "b")})
    run_flow(local)
    assert newest(homes[0]) == newest(homes[1]) == newest(local)


def test_a_reader_whose_folder_is_replaced_while_it_reads_takes_the_new_one(url: str, door: Door, home: Homes) -> None:
    first, second = home("first", url), home("second", url)
    with shared(first):
        partition(first, "one")
    replaced = []

    def replace(request: Request) -> None:
        if request.method == "GET" and "/home/lake/rollout_index/" in request.path and not replaced:
            replaced.append(request.path)
            partition(first, "two")
            Remote(url, first.home).push()

    door.rule = replace
    with shared(second):
        assert whole(second) == ["two"]
    assert "/pointers/" not in replaced[0]


def test_a_folder_that_is_half_there_is_not_taken(url: str, home: Homes) -> None:
    first, second = home("first", url), home("second", url)
    with shared(first):
        partition(first, "one")
    names = sorted(name for name in Objects(url).listed("lake/rollout_index/") if name.endswith(".parquet"))
    assert [name.rsplit("/", 1)[1] for name in names] == ["drops.parquet", "part-00000.parquet"]
    Objects(url).delete(["lake/rollout_index/" + names[0]])  # the object that is put last
    with pytest.raises(RemoteError, match="names a folder that is not there; refresh again"):
        Remote(url, second.home).pull()
    assert whole(second) == []


def test_more_objects_than_one_answer_lists_or_one_request_deletes(url: str, tmp_path: Path) -> None:
    store, file = Objects(url), tmp_path / "file"
    file.write_bytes(b"{}")
    names = [f"pointers/lake/quarantine/{number}.json" for number in range(1001)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: store.create(name, file), names))
    assert store.listed("pointers/").keys() == {name.removeprefix("pointers/") for name in names}
    store.delete([*names, "pointers/never-there"])
    assert store.listed("") == {}


def test_every_character_of_a_prefix_stands_for_itself(url: str, home: Homes) -> None:
    bucket = url.split("/")[2]
    odd = f"s3://{bucket}/a#b?c=d%20e/ü+&~[x]{{y}}'\"/home"
    first, second = home("first", odd), home("second", odd)
    with shared(first):
        partition(first, "one", "jobs/ü b#c?d%20e~" + "x" * 300)
    with shared(second):
        assert whole(second) == ["one"]
    others = [f"s3://{bucket}/{prefix}" for prefix in ("a", "a%23b", "a#b?c=d e")]
    assert [Objects(other).listed("") for other in others] == [{}, {}, {}]
    assert Objects(f"s3://{bucket}/a#b?c=d%20e").listed("")


@pytest.mark.parametrize("prefix", ["a//b", "a/../b", "."])
def test_a_prefix_that_no_object_can_have_is_told_in_one_line(url: str, home: Homes, prefix: str) -> None:
    with pytest.raises(RemoteError, match="cannot be used") as refused:
        Objects(f"s3://{url.split('/')[2]}/{prefix}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("endpoint", ["nonsense", "https://", "http://a b/"])
def test_an_endpoint_that_is_none_is_told_in_one_line(url: str, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(RemoteError, match="AWS_ENDPOINT_URL"):
        Objects(url).listed("")


def test_where_nobody_listens_and_where_no_credentials_are_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"max_retries": 0}
    monkeypatch.setattr(objects, "RETRIES", quick)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(RemoteError, match=r"http://127\.0\.0\.1:1/\S+: HTTP error: error sending request$"):
        Objects(url).listed("")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(RemoteError, match=r"error sending request; AWS_ACCESS_KEY_ID is not set$"):
        Objects(url).listed("")


def test_wrong_credentials_are_told_in_one_line(url: str, door: Door, home: Homes, tmp_path: Path) -> None:
    write_run(tmp_path, "a")
    door.rule = lambda _: "403"
    line = told(home("first", url), url, "refresh")
    assert line == f"flywheel: {url}: 403 Forbidden (Fault: told to); see AWS_ACCESS_KEY_ID and its rights"


@pytest.mark.slow
def test_a_store_that_fails_now_and_then_gets_the_same_bytes(url: str, door: Door, home: Homes, tmp_path: Path) -> None:
    """Refused for a while, cut off in an upload, an answer, before it, silent: asked again."""
    write_run(tmp_path, "a")
    first, second, local = home("first", url), home("second", url), home("local")
    faults = ["503", "cut", "lost", "500", "hang"]
    door.rule = lambda r: "503" if r.number < 4 else faults[r.number // 7 % 5] if not r.number % 7 else None
    run_flow(first)
    door.rule = lambda r: faults[r.number // 7 % 5] if not r.number % 7 else "short" if last_part(r) else None
    with shared(second):
        pass
    run_flow(local)
    assert newest(first) == newest(second) == newest(local)
    assert len(door.seen) > 7 * len(faults)


seen: set[str] = set()


def last_part(request: Request) -> bool:
    """The first time that rows of a dataset are asked for."""
    if request.method == "GET" and "/data-" in request.path and request.path not in seen:
        seen.add(request.path)
        return True
    return False


def test_a_large_file_goes_in_pieces_and_appears_whole(
    url: str, door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "PIECE", 5 * 2**20)
    file, store = tmp_path / "file", Objects(url)
    file.write_bytes(os.urandom(12 * 2**20))
    broken = []

    def cut(request: Request) -> str | None:
        if request.method == "PUT" and "partNumber=2" in request.query and not broken:
            broken.append(store.listed("x/"))
            return "cut"
        return None

    door.rule = cut
    store.create("x/large", file)
    assert broken == [{}], "nothing stands before the last piece"
    assert store.read("x/large")[0] == file.read_bytes()
    before = len(door.seen)
    store.create("x/large", file)
    assert [request.method for request in door.seen[before:]] == ["HEAD"]


def test_text_that_cannot_be_fetched_is_no_fault_of_the_run(url: str, door: Door, home: Homes, tmp_path: Path) -> None:
    write_run(tmp_path, "a")
    first, second = home("first", url), home("second", url, redaction={"pii": "all"})
    run_flow(first)
    door.rule = lambda r: "403" if r.method == "GET" and "/graded_traces/" in r.path else None
    with pytest.raises(RemoteError, match="403"):
        run_flow(second)
    assert quarantines(lake_of(second)) == ()
    door.rule = lambda _: None
    assert run_flow(second) == 1
