"""One look a Dagster run: what its steps share, made once or known to who has them made."""

from pathlib import Path

import pytest

from tests.flow.conftest import group, write_runs
from trace_flywheel.flow import watch as module
from trace_flywheel.flow.watch import seen_leniently
from trace_flywheel.orchestration.once import Once
from trace_flywheel.settings import Settings, load_settings


def test_a_value_is_made_once_a_run_and_forgotten_with_the_next() -> None:
    made: list[str] = []

    def make(run_id: str, _: Settings) -> str:
        made.append(run_id)
        return f"of {run_id}"

    once, settings = Once(make), Settings()
    assert [once.of(run_id, settings) for run_id in ("a", "a", "b", "a")] == ["of a", "of a", "of b", "of a"]
    assert made == ["a", "b", "a"]
    with once.known("known"):
        assert once.of("c", settings) == "known"
        assert once.of("d", settings) == "known"
    assert once.of("d", settings) == "of d", "what was known ends with the block"
    assert made == ["a", "b", "a", "d"]


def test_folders_are_looked_through_once_however_often_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_runs(tmp_path / "data", {"a": group("t", (1.0, 0.0), 1), "b": group("u", (1.0, 0.0), 1)})
    seen = seen_leniently(load_settings(home=tmp_path / "home", roots=(tmp_path / "data",)))
    looked: list[str] = []
    state = module.state
    monkeypatch.setattr(module, "state", lambda run: looked.append(run.run_id) or state(run))
    first = seen.fingerprints(seen.found[:1])
    assert list(first) == ["data/runs/a"]
    (tmp_path / "data/runs/a/results.json").write_text("[]")
    both = seen.fingerprints(seen.found)
    assert both == {**first, "data/runs/b": state(seen.found[1]).fingerprint}, "as it was before it was read"
    assert len(looked) == len(set(looked)) <= 2
