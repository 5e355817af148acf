"""The sweep tells what publication would keep, for the values in force exactly, and changes nothing."""

import json
from collections.abc import Callable

import pytest

from tests.flow.conftest import Flow, group
from trace_flywheel.cli.main import main
from trace_flywheel.flow.sweep import sweep
from trace_flywheel.records.errors import FlywheelError

MakeFlow = Callable[..., Flow]
RUNS = {"r1": group("a", (1.0, 0.9, 0.8, 0.7), 1), "r2": group("b", (1.0, 0.9, 0.0, 0.0), 20)}


def test_rows_grow_with_the_fraction_and_match_what_is_published(flow: MakeFlow) -> None:
    one = flow(RUNS, selection={"keep_fraction": 0.6})
    made = one.run()["sft_dataset"]
    found = sweep(one.curation())
    by_fraction = {s.keep_fraction: s.rows for s in found if s.threshold == 0.85}
    assert by_fraction == {0.1: 2, 0.25: 2, 0.5: 3, 0.6: 5, 0.75: 5, 1.0: 6}
    assert [(s.keep_fraction, s.threshold, s.rows) for s in found if s.in_force] == [(0.6, 0.85, made.rows)]


def test_a_recipe_has_a_sweep_of_its_own(flow: MakeFlow) -> None:
    one = flow(RUNS, datasets={"easy": {"tasks": ["a"]}})
    one.ingest()
    assert max(s.rows for s in sweep(one.curation(), "easy_sft")) == 4
    with pytest.raises(FlywheelError, match="dpo_dataset: a sweep is of an SFT set; there are: sft_dataset, easy_sft"):
        sweep(one.curation(), "dpo_dataset")


def test_the_command_shows_a_table_and_publishes_nothing(
    flow: MakeFlow, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = flow(RUNS)
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(one.root)]))
    one.ingest()
    assert main(["datasets", "--sweep", "--home", str(one.settings.home)]) == 0
    shown = capsys.readouterr().out
    assert "rows of sft_dataset" in shown
    assert "2 *" in shown
    assert main(["datasets", "--sweep", "--json", "--home", str(one.settings.home)]) == 0
    assert {"keep_fraction": 1.0, "threshold": 0.85, "rows": 6, "in_force": False} in json.loads(
        capsys.readouterr().out
    )
    assert not (one.settings.home / "datasets").exists()
