"""A home knows which roots it was fed from."""

from pathlib import Path

from trace_flywheel.flow.roots import away, remember, remembered, roots_in_force
from trace_flywheel.settings import load_settings


def test_the_settings_win_over_what_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    remember(tmp_path, (tmp_path / "old",))
    assert roots_in_force(load_settings(home=tmp_path)) == (tmp_path / "old",)
    assert roots_in_force(load_settings(home=tmp_path, roots=(tmp_path / "new",))) == (tmp_path / "new",)


def test_a_root_that_is_away_is_told_and_may_come_back_and_a_new_place_wins(tmp_path: Path) -> None:
    for name in ("a/runs", "b/runs", "a/other"):
        (tmp_path / name).mkdir(parents=True)
    remember(tmp_path, (tmp_path / "a/runs", tmp_path / "a/other"))
    remember(tmp_path, (tmp_path / "b/runs",))
    assert remembered(tmp_path) == {"other": tmp_path / "a/other", "runs": tmp_path / "b/runs"}
    (tmp_path / "a/other").rmdir()
    assert remembered(tmp_path) == {"runs": tmp_path / "b/runs"}
    assert away(load_settings(home=tmp_path)) == (tmp_path / "a/other",)
    remember(tmp_path, (tmp_path / "b/runs",))
    assert away(load_settings(home=tmp_path)) == (tmp_path / "a/other",)
    assert away(load_settings(home=tmp_path, roots=(tmp_path / "b/runs",))) == ()
    (tmp_path / "a/other").mkdir()
    assert remembered(tmp_path) == {"other": tmp_path / "a/other", "runs": tmp_path / "b/runs"}


def test_a_home_without_roots(tmp_path: Path) -> None:
    assert remembered(tmp_path) == {}
    assert roots_in_force(load_settings(home=tmp_path)) == ()


def test_a_root_spelt_through_its_parents_is_remembered_by_its_name(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "runs" / "job").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "runs" / "job")
    remember(tmp_path, (Path(".."),))
    assert remembered(tmp_path) == {"runs": tmp_path / "runs"}
