"""An erasure over an object store, lost or killed halfway: the next command ends it, and the text is nowhere."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harden.erasures import holding
from tests.lake.s3 import (
    Door,
    Request,
    environment,
    newest,
    partition,
    pointer,
    process,
    run_flow,
    stored_text,
    write_run,
)
from trace_flywheel.cli.main import main
from trace_flywheel.flow.home import lake_of, shared
from trace_flywheel.lake import remote_folders
from trace_flywheel.lake.objects import Objects
from trace_flywheel.lake.purged import Tombstone, address_of, bury
from trace_flywheel.settings import Settings

pytestmark = pytest.mark.xdist_group("s3")
Homes = Callable[..., Settings]


@pytest.mark.slow
def test_an_erasure_that_lost_its_store_halfway_is_ended_by_the_next_command(
    url: str, door: Door, home: Homes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it was: no object of the store holds the text any more, of versions that this home never saw either."""
    write_run(tmp_path, "a", (0.0, 0.25, 0.5, 1.0))
    first, second = home("first", url), home("second", url)
    run_flow(first)
    for name in "bc":  # of b, the versions in between, the first home knows nothing
        write_run(tmp_path, name)
        run_flow(second)
    for name, value in environment(first, url).items():
        monkeypatch.setenv(name, value)
    ends: list[Callable[[Request], bool]] = [
        lambda r: pointer(r, "/sidecar.json"),
        lambda r: pointer(r, "/latest"),
        lambda r: r.method == "POST" and "delete" in r.query,
    ]
    for number, end in enumerate(ends):
        text = f"Mended a in {number} steps"
        assert holding(stored_text(url, tmp_path / f"before-{number}"), text)
        over: list[Request] = []

        def rule(request: Request, end=end, over=over) -> str | None:
            over.extend([request] * end(request))
            return "403" if over else None

        door.rule = rule
        assert main(["purge", "--trace", f"a-a{number}", "--reason", "x"]) == 1
        door.rule = lambda _: None
        with shared(first):
            pass
        assert holding(stored_text(url, tmp_path / f"after-{number}"), text) == []
        assert holding(first.home, text) == []
    run_flow(second)
    assert newest(second) == newest(first)


def test_an_erasure_takes_what_killed_writers_left(url: str, home: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that nothing names, once they are a day old: before, they may be another writer's work."""
    first = home("first", url)
    with shared(first):
        partition(first, "one")
    named = set(Objects(url).listed(""))
    orphan = first.home / "orphan"
    orphan.write_bytes(b"x")
    for name in ("lake/rollout_index/jobs%2Fa/0000/drops.parquet", "lake/t/0000/x", "datasets/d/0000/data-00000.jsonl"):
        Objects(url).create(name, orphan)
    for seconds, left in ((remote_folders.STALE_SECONDS, 3), (-5, 0)):
        monkeypatch.setattr(remote_folders, "STALE_SECONDS", seconds)
        with shared(first):
            bury(lake_of(first).root, [Tombstone(address_of("jobs/z", str(left)), "jobs/z", "", "x")])
        now = {name for name in Objects(url).listed("") if "purged" not in name and not name.endswith("/format")}
        assert now >= {name for name in named if not name.endswith("/format")}
        assert len([name for name in now if "/0000/" in name]) == left


@pytest.mark.slow
@pytest.mark.parametrize("writes", [1, 4])
def test_an_erasure_killed_at_a_write_is_ended(url: str, door: Door, home: Homes, tmp_path: Path, writes: int) -> None:
    """Done in the home and hardly in the store: the home's next command tells the store, a refresh publishes."""
    write_run(tmp_path, "a", (0.0, 0.25, 0.5, 1.0))
    first, second = home("first", url), home("second", url)
    run_flow(first)
    run_flow(second)
    text = "Mended a in 1 steps"
    assert holding(stored_text(url, tmp_path / "before"), text)
    purging = process(first, url, "purge", "--trace", "a-a1", "--reason", "x")
    seen: list[Request] = []

    def rule(request: Request) -> Callable[[], None] | None:
        seen.extend([request] * (request.method != "GET" and request.method != "HEAD"))
        return purging.kill if len(seen) >= writes else None

    door.rule = rule
    assert purging.wait(300) == -signal.SIGKILL
    door.rule = lambda _: None
    assert holding(first.home, text) == []
    assert holding(stored_text(url, tmp_path / "killed"), text), "killed too late to show anything"
    with shared(first):
        pass
    assert holding(stored_text(url, tmp_path / "after"), text) == []
    run_flow(second)
    assert holding(second.home, text) == []
    with shared(first):
        assert newest(first) == newest(second)
