"""An unchanged run is not opened again; whatever is done to it is seen, as by a process that knows nothing."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.sample.write import write_sample
from trace_flywheel.sources import claims, registry
from trace_flywheel.sources.claims import claim_of
from trace_flywheel.sources.discover import Discovery, discover
from trace_flywheel.sources.eval_run import EvalRunReader
from trace_flywheel.sources.reader import listed
from trace_flywheel.sources.run_state import state

ROWS = json.dumps([{"trace_id": "t", "messages": [{"role": "user", "content": "q"}], "verdict": "pass"}])
CUT = ROWS[:-3]
"""What a writer has written so far."""


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of test folders are of now; what is recent is a rule of its own."""
    monkeypatch.setattr(claims, "_known", {})
    monkeypatch.setattr(claims, "SETTLED_SECONDS", -1.0)


def run_folder(root: Path, name: str = "r", text: str = ROWS) -> Path:
    folder = root / "jobs" / "runs" / name
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(text)
    return folder


def opened(work: Callable[[], object], below: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files of a folder that are opened meanwhile."""
    seen: list[str] = []
    real = os.open

    def note(path: object, *arguments: object, **named: object) -> int:
        if Path(os.fsdecode(path)).is_relative_to(below) and not Path(os.fsdecode(path)).is_dir():  # type: ignore[arg-type]
            seen.append(Path(os.fsdecode(path)).name)  # type: ignore[arg-type]
        return real(path, *arguments, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", note)
        work()
    return seen


def unknowing(root: Path) -> Discovery:
    """What is found by a process that remembers nothing."""
    kept = dict(claims._known)
    claims._known.clear()
    found = discover([root])
    claims._known.clear()
    claims._known.update(kept)
    return found


def plain(found: Discovery) -> tuple[object, object]:
    return found.runs, found.problems


def test_nothing_of_an_unchanged_run_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_folder(tmp_path)
    jobs = tmp_path / "jobs"
    assert "results.json" in opened(lambda: discover([jobs]), jobs, monkeypatch)
    assert opened(lambda: discover([jobs]), jobs, monkeypatch) == []


def test_nothing_of_unchanged_runs_of_any_format_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that hold folders are looked through once more, before they are claimed."""
    write_sample(tmp_path / "jobs")
    first, second = discover([tmp_path / "jobs"]), discover([tmp_path / "jobs"])
    readers = {run.format for run in first.runs}
    assert len(readers) > 2
    seen: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(registry, "claimed_by", lambda folder: seen.append(folder.path))
        third = discover([tmp_path / "jobs"])
    assert plain(first)[0] == plain(second)[0] == plain(third)[0]
    assert not {run.path for run in first.runs} & set(seen)


def test_a_walk_tells_the_state_of_what_it_knew(tmp_path: Path) -> None:
    run_folder(tmp_path)
    for _ in range(2):
        found = discover([tmp_path / "jobs"])
        assert {run.run_id: state(run) for run in found.runs} == found.states


def same_size_and_times(folder: Path) -> None:
    time.sleep(0.05)  # steps of the file system's clock
    path = folder / "results.json"
    before = path.stat()
    path.write_text(" " * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def another_file_of_that_size_and_time(folder: Path) -> None:
    path, other = folder / "results.json", folder / "results.tmp"
    before = path.stat()
    other.write_text("?" * before.st_size)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


def open_ended(folder: Path) -> None:
    (folder / "results.json").write_text(CUT)


def renamed(folder: Path) -> None:
    (folder / "results.json").rename(folder / "other.txt")


def linked_away(folder: Path) -> None:
    outside = folder.parents[2] / "outside.json"
    (folder / "results.json").rename(outside)
    (folder / "results.json").symlink_to(outside)


def a_folder_instead(folder: Path) -> None:
    (folder / "results.json").unlink()
    (folder / "results.json").mkdir()


def a_trial_beside(folder: Path) -> None:
    (folder / "trial").mkdir()
    (folder / "trial" / "result.json").write_text(json.dumps({"rollout_name": "t", "task_name": "t", "rewards": {}}))


def no_right_to_read(folder: Path) -> None:
    (folder / "results.json").chmod(0)


def gone(folder: Path) -> None:
    (folder / "results.json").unlink()
    folder.rmdir()


CHANGES = [
    same_size_and_times,
    another_file_of_that_size_and_time,
    open_ended,
    renamed,
    linked_away,
    a_folder_instead,
    a_trial_beside,
    no_right_to_read,
    gone,
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen(tmp_path: Path, change: Callable[[Path], None]) -> None:
    folder = run_folder(tmp_path)
    run_folder(tmp_path, "beside")
    jobs = tmp_path / "jobs"
    before = [plain(discover([jobs])) for _ in range(2)][-1]
    change(folder)
    after = plain(discover([jobs]))
    assert after == plain(unknowing(jobs)) == plain(discover([jobs]))
    if change is not no_right_to_read or os.geteuid():
        assert after != before


@given(st.lists(st.sampled_from(["ends", "open", "other", "none", "link", "look"]), max_size=12))
def test_a_history_of_changes_is_seen_as_by_one_who_knows_nothing(
    tmp_path_factory: pytest.TempPathFactory, history: list[str]
) -> None:
    root = tmp_path_factory.mktemp("claims")
    folder = run_folder(root)
    path = folder / "results.json"
    (root / "target.json").write_text(ROWS)
    for step in history:
        if step == "look":
            assert plain(discover([root / "jobs"])) == plain(unknowing(root / "jobs"))
            continue
        path.unlink(missing_ok=True)
        if step == "link":
            path.symlink_to(root / "target.json")
        elif step != "none":
            path.write_text({"ends": ROWS, "open": CUT, "other": "no rows"}[step])
    assert plain(discover([root / "jobs"])) == plain(unknowing(root / "jobs"))


def test_what_holds_a_link_is_looked_at_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run_folder(tmp_path)
    (folder / "notes").symlink_to(tmp_path)
    jobs = tmp_path / "jobs"
    for _ in range(3):
        assert "results.json" in opened(lambda: discover([jobs]), jobs, monkeypatch)


def test_what_was_touched_a_moment_ago_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two changes within one step of the clock bear the same times."""
    monkeypatch.setattr(claims, "SETTLED_SECONDS", 3600.0)
    run_folder(tmp_path)
    jobs = tmp_path / "jobs"
    for _ in range(3):
        assert "results.json" in opened(lambda: discover([jobs]), jobs, monkeypatch)


def test_a_folder_is_known_as_it_was_before_its_reader_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the last byte is written between the look of a reader and the end of the claim, it is seen next time."""
    folder = run_folder(tmp_path, text=CUT)
    real = type(registry.reader("eval_run")).finished

    def finished(self: object, listing: object) -> bool:
        said: bool = real(self, listing)  # type: ignore[arg-type]
        (folder / "results.json").write_text(ROWS)
        return said

    with monkeypatch.context() as patch:
        patch.setattr(type(registry.reader("eval_run")), "finished", finished)
        first = claim_of(listed(folder))
    second = claim_of(listed(folder))
    assert [claim and claim.finished for claim in (first, second)] == [False, True]


def test_other_readers_are_asked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_folder(tmp_path)
    assert len(discover([tmp_path / "jobs"]).runs) == 1
    monkeypatch.setattr(registry, "READERS", ())
    assert discover([tmp_path / "jobs"]).runs == ()


def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "MOST", 3)
    for number in range(8):
        run_folder(tmp_path, f"r{number}")
    for _ in range(2):
        assert len(discover([tmp_path / "jobs"]).runs) == 8
        assert len(claims._known) <= 3


def test_a_folder_that_is_claimed_no_more_is_forgotten(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    discover([tmp_path / "jobs"])
    assert str(folder) in claims._known
    (folder / "results.json").write_text("no rows")
    discover([tmp_path / "jobs"])
    assert str(folder) not in claims._known


def test_what_could_not_be_read_once_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the disk makes a run unfinished for one look, not for the life of a sensor."""
    run_folder(tmp_path)
    faults = [True]
    reader = next(reader for reader in registry.READERS if isinstance(reader, EvalRunReader))
    finished = reader.finished
    monkeypatch.setattr(reader, "finished", lambda folder: not (faults and faults.pop()) and finished(folder))
    assert [run.finished for run in discover([tmp_path]).runs] == [False]
    assert [run.finished for run in discover([tmp_path]).runs] == [True]
    assert opened(lambda: discover([tmp_path]), tmp_path, monkeypatch) == []
