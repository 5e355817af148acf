"""Lake and datasets in an object store, against a real server: same bytes, atomic for readers, safe for two writers."""

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harden.erasures import holding
from tests.lake.s3 import datasets, newest, run_flow, write_run
from trace_flywheel.cli.main import main
from trace_flywheel.cli.refresh import refreshed
from trace_flywheel.flow.home import lake_of, remote_of, shared
from trace_flywheel.flow.ingest import ingest
from trace_flywheel.flow.watch import watch
from trace_flywheel.lake.objects import Objects, RemoteError
from trace_flywheel.lake.pointers import folder_of, pointers
from trace_flywheel.lake.quarantine import quarantine, quarantines, release
from trace_flywheel.lake.remote import Remote
from trace_flywheel.lake.withdrawn import in_force, note
from trace_flywheel.records.grading import Withdrawal
from trace_flywheel.settings import Settings, SettingsError

pytestmark = pytest.mark.xdist_group("s3")


def stored(url: str, settings: Settings) -> dict[str, str]:
    return Objects(url).listed("")


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
        staged = lake.stage(
            folder, "rollout_index", "jobs/a", parts=[part], drops=[], entered=0,
            inputs_digest=answer, source_fingerprint=answer,
        )  # fmt: skip
        lake.land([staged])


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
    Remote(url, first.home)._folders.create(half)
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
