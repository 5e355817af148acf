"""Work beside the process that holds Dagster gives what work in it gives, and leaves nothing in it."""

from pathlib import Path

import pytest

from tests.orchestration.test_assets import KEYS, World
from trace_flywheel.flow import apart, beside
from trace_flywheel.flow.beside import Beside
from trace_flywheel.lake.dataset import find_version, names
from trace_flywheel.orchestration import helper
from trace_flywheel.orchestration.sensors import range_tags


def published(folder: Path) -> dict[str, str]:
    world = World(folder)
    world.run("ingest_job", range_tags(KEYS))
    assert world.run("refresh_job").success
    helper.end()
    return {name: find_version(world.settings.home, name).version for name in names(world.settings.home)}


def test_a_large_lake_is_worked_on_beside_and_gives_the_same_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    call = Beside.call

    def counted(self, function, *arguments, shared=False):
        calls.append(function.__name__)
        return call(self, function, *arguments, shared=shared)

    monkeypatch.setattr(Beside, "call", counted)
    here = published(tmp_path / "here")
    assert calls == []
    monkeypatch.setattr(apart, "_held", None)
    monkeypatch.setattr(helper, "SMALL_ROLLOUTS", -1)
    monkeypatch.setattr(beside, "SMALL_BYTES", -1)
    assert published(tmp_path / "beside") == here
    assert len(here) >= 5
    assert {"all_of", "make", "audited", "uneven_groups"} == set(calls)
    assert apart._held is None
