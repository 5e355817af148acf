"""The library and the assets say the same: what `load_rollouts` and `training_signals` give is what a home holds."""

from pathlib import Path

import pytest

from trace_flywheel import api
from trace_flywheel.cli.main import main
from trace_flywheel.flow.ingest_tasks import REDACTED
from trace_flywheel.flow.names import ADVANTAGES
from trace_flywheel.lake.parts import read_rollouts
from trace_flywheel.lake.store import Lake
from trace_flywheel.sample.write import write_sample

pytestmark = pytest.mark.slow
BY = ("task", "task_digest", "agent", "model", "policy_version")
"""The assets' own key."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Lake]:
    folder = tmp_path_factory.mktemp("same")
    write_sample(folder / "jobs")
    assert main(["refresh", "--root", str(folder / "jobs"), "--home", str(folder / "home")]) == 0
    return folder / "jobs", Lake(folder / "home")


def test_rollouts_are_those_of_the_lake(made: tuple[Path, Lake]) -> None:
    jobs, lake = made
    held = {
        (rollout.run_id, rollout.trace_id): (rollout.messages, rollout.tools, rollout.reward, rollout.verdict)
        for sidecar in lake.sidecars(REDACTED)
        for part in sidecar.parts
        for _, rollout in read_rollouts(lake.part_path(sidecar, part))
    }
    loaded = {
        (rollout.run_id, rollout.trace_id): (rollout.messages, rollout.tools, rollout.reward, rollout.verdict)
        for rollout in api.load_rollouts(jobs)
    }
    assert len(held) > 50
    assert loaded == held


def test_advantages_are_those_of_the_lake(made: tuple[Path, Lake]) -> None:
    jobs, lake = made
    held = {row["trace_id"]: row["advantage"] for row in lake.table(ADVANTAGES, "advantages").to_pylist()}
    signal = api.training_signals(jobs, by=BY)
    told = {member.rollout: member.advantage for group in signal.groups for member in group.members}
    both = held.keys() & told.keys()
    assert sum(held[name] is not None for name in both) > 5
    assert {name: told[name] for name in both} == pytest.approx({name: held[name] for name in both})
