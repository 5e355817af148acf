"""Work beside the process that holds Dagster gives what work in it gives, and leaves nothing in it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flow.conftest import group, write_runs
from tests.orchestration.test_assets import KEYS, World
from trace_flywheel.flow import apart, begun, beside
from trace_flywheel.flow.beside import Beside
from trace_flywheel.lake.dataset import find_version, names
from trace_flywheel.orchestration import helper
from trace_flywheel.orchestration.ingest_assets import INGEST_ASSETS
from trace_flywheel.orchestration.instance import instance
from trace_flywheel.orchestration.sensors import RANGE_KEYS, range_tags


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


AHEAD = """
import json, os, signal, sys
from pathlib import Path

from trace_flywheel.cli import refresh
from trace_flywheel.cli.main import main
from trace_flywheel.flow import begun, beside
from trace_flywheel.orchestration import helper

beside.SMALL_BYTES = -1
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored by what it starts beside itself
taken, taken_process, headless = begun.taken, begun.taken_process, refresh._headless
told = []

def process():
    given = taken_process()
    told.append(given is not None)
    return given

def noted(function, arguments):
    given = taken(function, arguments)
    told.append(given is not None)
    return given

def interrupted(settings):
    begun._begun._left[0][1].result()  # the first step is done, and the second one is under way
    os.kill(os.getpid(), signal.SIGINT)

if __name__ == "__main__":
    helper.taken, helper.taken_process, helper.SMALL_ROLLOUTS = noted, process, -1
    if sys.argv[1] == "interrupted":
        refresh._headless = interrupted
    code = main(["refresh", "--root", sys.argv[2], "--home", sys.argv[3]])
    print(json.dumps(told))
    sys.exit(code)
"""


def refresh_ahead(how: str, tmp_path: Path, home: str, workers: int) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", AHEAD, how, str(tmp_path / "data"), str(tmp_path / home)]
    environment = {**os.environ, "FLYWHEEL_INGEST__WORKERS": str(workers)}
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=300)


def test_steps_begun_while_dagster_is_imported_are_those_that_its_assets_ask_for(tmp_path: Path) -> None:
    write_runs(tmp_path / "data", {"r": group("t", (1.0, 0.0), 1), "s": group("u", (1.0, 0.0), 1)})
    ahead, alone = (refresh_ahead("to its end", tmp_path, f"{n}", n) for n in (2, 1))
    assert (ahead.returncode, alone.returncode) == (0, 0), ahead.stderr + alone.stderr
    assert [json.loads(done.stdout.splitlines()[-1]) for done in (ahead, alone)] == [[True] * 4, [False] * 4]
    homes = [tmp_path / "2", tmp_path / "1"]
    versions = [{name: find_version(home, name).version for name in names(home)} for home in homes]
    assert versions[0] == versions[1]
    told = [changes(home) for home in homes]
    assert told[0] == told[1]
    assert set(told[0].values()) == {("made", "first time")}
    assert len(told[0]) == 6


def changes(home: Path) -> dict[tuple[str, str], tuple[str, str]]:
    """What Dagster was told of each partition: status and change."""
    made: dict[tuple[str, str], tuple[str, str]] = {}
    for asset in INGEST_ASSETS:
        for record in instance(home).fetch_materializations(asset.key, limit=100).records:
            one = record.asset_materialization
            assert one is not None
            assert one.partition is not None
            status, changed = (str(one.metadata[name].value) for name in ("status", "changed"))
            made[asset.key.to_user_string(), one.partition] = status, changed
    return made


def test_an_interrupt_while_dagster_is_imported_ends_the_step_under_way(tmp_path: Path) -> None:
    write_runs(tmp_path / "data", {"r": group("t", (1.0, 0.0), 1)})
    done = refresh_ahead("interrupted", tmp_path, "home", 2)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    again = refresh_ahead("to its end", tmp_path, "home", 2)
    assert again.returncode == 0, again.stderr


def test_as_many_runs_are_begun_as_one_run_of_dagster_takes() -> None:
    assert begun.MOST_RUNS == RANGE_KEYS
