"""Work beside the process that holds Dagster gives what work in it gives, and leaves nothing in it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.flow.conftest import group, write_runs
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
    assert {"all_of", "make", "audited", "uneven_groups", "reported"} == set(calls)
    assert apart._held is None


REFRESH = """
import sys
from pathlib import Path

from trace_flywheel.cli.refresh import refreshed
from trace_flywheel.flow import beside
from trace_flywheel.orchestration import helper
from trace_flywheel.settings import load_settings

base = Path(sys.argv[1])
helper.SMALL_ROLLOUTS = beside.SMALL_BYTES = -1
done = refreshed(load_settings(home=base / "home", roots=(base / "data",)))
print(done.document["runs"]["ingested"], len(done.document["datasets"]), "dagster" in sys.modules)
print(*sorted({"pandas", "pyarrow.compute", "numba", "scipy", "sklearn"} & sys.modules.keys()))
"""


def test_the_process_that_holds_dagster_loads_nothing_of_what_large_work_is_done_with(tmp_path: Path) -> None:
    """Pandas and Arrow's functions are 45 MB, and half a second of each refresh."""
    write_runs(tmp_path / "data", {"r": group("t", (1.0, 0.0), 1)})
    command = [sys.executable, "-c", REFRESH, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told, *heavy = done.stdout.split("\n", 1)
    assert told == "1 5 True", done.stderr
    assert heavy == ["\n"]
