"""A look at many job folders costs each folder once, whatever of them is new, waits or is known: calls are counted."""

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from trace_flywheel.flow.expected import Expected
from trace_flywheel.flow.ingest import ingest
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.watch import watch, without_secret_names
from trace_flywheel.lake.purged import Tombstone, address_of, bury
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.golden import CorrectionEntry
from trace_flywheel.records.rollout import Correction
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.settings import Settings, load_settings
from trace_flywheel.sources import claims
from trace_flywheel.sources.discover import Discovery
from trace_flywheel.sources.reader import Run

FEW, MANY = 20, 80
LINEAR = 1.15 * MANY / FEW
"""What four times the folders may cost at most."""


@pytest.fixture(autouse=True)
def _folders_are_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process remembers does not depend on how long a test takes."""
    monkeypatch.setattr(claims, "SETTLED_SECONDS", -1.0)


def settings_for(folder: Path, runs: int) -> Settings:
    for number in range(runs):
        path = folder / "jobs" / "runs" / f"run-{number:03d}" / "results.json"
        path.parent.mkdir(parents=True)
        messages = [{"role": "user", "content": f"Add {number} and 1."}, {"role": "assistant", "content": "Done."}]
        row = {"task_id": "sum", "trace_id": f"t{number}", "messages": messages, "verdict": "pass", "reward": 1.0}
        path.write_text(json.dumps([{**row, "grader": "g"}]))
    return load_settings(home=folder / "home", roots=(folder / "jobs",), ingest={"workers": 1})


def calls(work: Callable[[], object]) -> int:
    """Calls of Python and C functions."""
    count = 0

    def see(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    work()  # what is compiled or cached once is not counted
    gc.disable()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def ingested(settings: Settings) -> Lake:
    lake = Lake(settings.home)
    seen = watch(settings, lake)
    ingest(seen.todo, lake, settings, seen.inputs, workers=1)
    return lake


@pytest.mark.parametrize("waits", [False, True], ids=["ready", "waiting"])
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_a_look_is_linear_in_the_folders(tmp_path: Path, known: bool, waits: bool) -> None:
    costs = []
    for runs in (FEW, MANY):
        settings = settings_for(tmp_path / str(runs), runs)
        lake = ingested(settings) if known else Lake(settings.home)
        now = time.time() if waits else None
        seen = watch(settings, lake, now)
        assert len(seen.waiting if waits else seen.unchanged if known else seen.todo) == runs
        costs.append(calls(lambda settings=settings, lake=lake, now=now: watch(settings, lake, now)))
    assert costs[1] <= LINEAR * costs[0], costs


class Told(str):
    """A text that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Told.compared += 1
        return str.__eq__(self, other)  # type: ignore[arg-type]

    __hash__ = str.__hash__


def test_no_run_is_compared_with_all_others(tmp_path: Path) -> None:
    rules = redactor(policy_of(load_settings(home=tmp_path)))
    named = [Told(f"jobs/run-{n:03d}") for n in range(MANY)]
    runs = tuple(Run(name, "eval_run", tmp_path, tmp_path / name) for name in named)
    secret = Run("jobs/ghp_" + "a1B2" * 9, "eval_run", tmp_path, tmp_path / "secret")
    Told.compared = 0
    found = without_secret_names(Discovery((*runs, secret), ()), rules)
    assert Told.compared <= 4 * MANY
    assert found.runs == runs
    assert [problem.reason for problem in found.problems] == ["secret_left"]


def test_what_all_runs_share_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_for(tmp_path, FEW)
    lake = ingested(settings)
    bury(lake.root, [Tombstone(address_of("jobs/runs/run-003", "t3"), "jobs/runs/run-003", "", "asked for")])
    read: list[str] = []
    before = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: (read.append(path.name), before(path))[1])
    assert [run.run_id for run in watch(settings, lake).todo] == ["jobs/runs/run-003"]
    assert read.count("purged.jsonl") == 1


def test_corrections_concern_the_runs_that_they_name(tmp_path: Path) -> None:
    made = [
        CorrectionEntry(trace, Correction(text, by), run_id=run)
        for trace, run, text, by in (
            ("t1", "jobs/runs/a", "by id", "x"),
            ("t1", None, "for all", "x"),
            ("t1", "a", "by name", "x"),
            ("t2", "b", "of another", "x"),
        )
    ]
    inputs = SideInputs(corrections=tuple(made))
    assert inputs.corrections_of("jobs/runs/a") == {"t1": made[2]}, "the run's own, and of two the later one"
    assert inputs.corrections_of("jobs/runs/c") == {"t1": made[1]}
    assert set(inputs.corrections_of("jobs/runs/b")) == {"t1", "t2"}
    settings = load_settings(home=tmp_path / "home")
    states = [
        Expected(Lake(settings.home), settings, given).state("jobs/runs/a", "f") for given in (inputs, SideInputs())
    ]
    assert states[0] != states[1]


def test_an_unchanged_run_costs_stats_and_its_three_sidecars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second look of a process opens nothing of the job folders, and of the lake no more than the sidecars."""
    settings = settings_for(tmp_path, FEW)
    lake = ingested(settings)
    watch(settings, lake)
    seen: list[str] = []
    sys.addaudithook(lambda event, args: seen.append(str(args[0])) if event == "open" and watching else None)
    watching = [True]
    found = watch(settings, lake)
    watching.clear()
    assert len(found.unchanged) == FEW
    assert [path for path in seen if path.startswith(str(tmp_path / "jobs"))] == []
    runs = [path for path in seen if "run-0" in path]
    assert len(runs) == len(set(runs)) == 3 * FEW
    assert {Path(path).name for path in runs} == {"sidecar.json"}
