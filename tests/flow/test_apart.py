"""One pass whose steps take the home's lock one by one, as Dagster's do, and what others write between two of them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flow.conftest import Flow, group
from trace_flywheel.cli.main import main
from trace_flywheel.flow import apart
from trace_flywheel.flow.watch import side_inputs_now
from trace_flywheel.lake import dataset

RUNS = {
    "r1": group("a", (1.0, 0.9, 0.2, 0.0), 1),
    "r2": group("b", (1.0, 0.0, 0.3, 0.6), 50),
    "r3": group("c", (0.0, 0.1), 30),
}
LATER: tuple[apart.What, ...] = ("sft", "pair", "kto", "rl", "prompt")


@pytest.fixture
def ingested(flow: Callable[..., Flow], monkeypatch: pytest.MonkeyPatch) -> Flow:
    made: Flow = flow(RUNS)
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(made.root)]))
    made.ingest()
    return made


def with_command(flow: Flow, words: list[str]) -> None:
    """Two steps of a pass, a command of somebody else, and all others."""
    under_way = apart.Pass("a run", flow.settings, side_inputs_now(flow.settings))
    for what in ("advantages", "sft"):
        apart.make(under_way, what, None)
    assert main([*words, "--reason", "asked", "--home", str(flow.lake.home)]) == 0
    for what in LATER:
        apart.make(under_way, what, None)


def files(home: Path) -> dict[str, bytes]:
    """All files of the newest versions."""
    found = [dataset.find_version(home, name).path for name in dataset.names(home)]
    return {p.relative_to(home).as_posix(): p.read_bytes() for v in found for p in v.rglob("*") if p.is_file()}


@pytest.mark.parametrize("trace", ["a-0", "a-3", "c-1"])
def test_what_is_erased_between_two_steps_is_known_to_no_dataset_that_is_made_then(ingested: Flow, trace: str) -> None:
    with_command(ingested, ["purge", "--trace", trace])
    home = ingested.lake.home
    for name in dataset.names(home):
        table = dataset.fates(dataset.find_version(home, name)).to_pylist()
        assert len(table) == 10
        assert trace not in {row["trace_id"] for row in table}, name


def test_what_is_withdrawn_between_two_steps_is_in_no_dataset_that_is_made_then(
    ingested: Flow, flow: Callable[..., Flow]
) -> None:
    with_command(ingested, ["withdraw", "--trace", "a-0"])
    home = ingested.lake.home
    for name in dataset.names(home):
        (fate,) = [
            row for row in dataset.fates(dataset.find_version(home, name)).to_pylist() if row["trace_id"] == "a-0"
        ]
        assert (fate["kept"], fate["reason"]) == (False, "withdrawn"), name
    before = files(home)
    assert main(["refresh", "--home", str(home)]) == 0
    assert {path: text for path, text in files(home).items() if path in before} == before
