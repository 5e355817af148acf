"""What an erasure must not forget, and what it must not take along: files beside lake and datasets, times, disks."""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.flow.conftest import Flow, group, sentence, trace, write_runs
from tests.flow.test_purge import left, purge
from trace_flywheel.cli.main import main
from trace_flywheel.lake.dataset import fates as fates_of
from trace_flywheel.lake.dataset import find_version, names, provenance, remove
from trace_flywheel.sources.discover import run_id_of

MakeFlow = Callable[..., Flow]


@pytest.fixture
def one(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> Flow:
    rows = [*group("a", (1.0, 0.9, 0.2, 0.0), 1), trace("unsure", "d", None, 40, "unsure")]
    made = flow({"r1": rows, "r2": [trace("a-0", "b", 1.0, 50)]})
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(made.root)]))
    made.run()
    return made


def value(one: Flow, text: str) -> tuple[str, str]:
    file = one.root.parent / "value.txt"
    file.write_text(text + "\n")
    return "--value-from", str(file)


def test_what_waits_for_a_grade_waits_still(one: Flow) -> None:
    waiting = (one.lake.root / "needs_grading.jsonl").read_text()
    assert '"unsure"' in waiting
    assert purge(one, *value(one, "nobody ever said this")) == 0
    assert (one.lake.root / "needs_grading.jsonl").read_text() == waiting


def test_a_withdrawal_forgets_the_name_of_what_was_erased(one: Flow) -> None:
    for name in ("a-1", "a-0"):
        assert main(["withdraw", "--trace", name, "--reason", "asked", "--home", str(one.settings.home)]) == 0
    one.run()
    assert purge(one, "--trace", "a-1") == 0
    assert left(one, '"a-1"') == []
    assert purge(one, "--trace", "a-0", "--run", "r1") == 0
    one.run()
    rl = {p.trace_ids[0] for p in provenance(find_version(one.settings.home, "rl_dataset"))}
    assert "a-0" not in rl  # that of r2 stays withdrawn


def test_exports_that_were_killed_go_too(one: Flow) -> None:
    place = one.settings.home / "exports" / ".tmp-killed"
    place.mkdir(parents=True)
    (place / "data-00000.jsonl").write_text(json.dumps({"said": sentence(2)}))
    assert purge(one, "--trace", "a-1") == 0
    assert left(one, sentence(2)) == []


def test_files_that_killed_writers_left_go_too(one: Flow) -> None:
    of_a_run = one.lake.folder("graded_traces", "data/runs/r1")
    for place in (one.lake.root, one.lake.root / "quarantine", of_a_run, one.settings.home):
        place.mkdir(exist_ok=True)
        (place / ".tmp-abc").write_text(sentence(2))
        os.utime(place / ".tmp-abc", (4e9, 4e9))
    assert purge(one, "--trace", "a-1") == 0
    assert left(one, sentence(2)) == []


def test_a_table_that_its_writer_could_not_end_stops_no_erasure(one: Flow) -> None:
    """A full disk or a kill in the middle of a table leaves one that cannot be read, in a version or in an export."""
    out = one.settings.home / "mine"
    words = ["export", "kto_dataset", "--format", "kto", "--out", str(out), "--home", str(one.settings.home)]
    assert main(words) == 0
    for place in (find_version(one.settings.home, "rl_dataset").path, out):
        (place / ".tmp-fates.parquet").write_bytes(b"PAR1" + sentence(2).encode())
    (out / "broken.parquet").write_bytes(b"PAR1" + sentence(2).encode())
    assert purge(one, *value(one, sentence(2))) == 0
    assert [
        str(p) for p in one.settings.home.rglob("*.parquet") if b"PAR1" + sentence(2).encode() in p.read_bytes()
    ] == []


def test_folders_of_killed_writers_go_whatever_the_clock_says(one: Flow) -> None:
    place = one.settings.home / "datasets" / "sft_dataset" / ".tmp-killed"
    place.mkdir()
    (place / "data.jsonl").write_text(sentence(2))
    os.utime(place, (4e9, 4e9))
    assert purge(one, "--trace", "a-1") == 0
    assert left(one, sentence(2)) == []


def test_a_clock_that_was_set_back_serves_no_older_version(one: Flow) -> None:
    for version in (one.settings.home / "datasets").glob("*/*"):
        if version.is_dir():
            os.utime(version, (4e9, 4e9))
    assert purge(one, "--trace", "a-1") == 0
    assert left(one, sentence(2)) == []
    for name in names(one.settings.home):
        assert "a-1" not in {t for p in provenance(find_version(one.settings.home, name)) for t in p.trace_ids}


def test_recipes_lose_it_too(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = {"small": {"tasks": ["a"], "selection": {"keep_fraction": 1.0}}}
    one = flow({"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1)}, datasets=recipes)
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(one.root)]))
    monkeypatch.setenv("FLYWHEEL_DATASETS", json.dumps(recipes))
    assert main(["refresh", "--home", str(one.settings.home)]) == 0
    assert "a-1" in {t for p in provenance(find_version(one.settings.home, "small_sft")) for t in p.trace_ids}
    assert purge(one, "--trace", "a-1") == 0
    assert left(one, sentence(2)) == []
    assert find_version(one.settings.home, "small_sft").rows == 1


def test_what_others_keep_of_a_value_is_told(one: Flow, capsys: Any) -> None:
    """A golden must be held out as long as its file says it, and a file that a user put there is the user's."""
    write_runs(one.root, {}, [{"task_id": "z", "prompt": f"Tell {sentence(2)} again."}])
    one.run()
    mine = one.settings.home / "notes.txt"
    mine.write_text(json.dumps({"said": sentence(2)}))
    assert purge(one, *value(one, sentence(2))) == 1
    told = capsys.readouterr().err
    assert f"stands still in {one.lake.root / 'goldens.json'}, {mine}" in told
    assert sentence(2) not in told
    assert left(one, sentence(2)) == ["lake/goldens.json", "notes.txt"]
    mine.unlink()
    write_runs(one.root, {}, [{"task_id": "z"}])
    assert purge(one, *value(one, sentence(2))) == 0
    assert left(one, sentence(2)) == []


def test_what_is_no_text_is_told(one: Flow, capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes(b"\xff\xfe\xfa123456789")
    assert purge(one, "--value-from", str(tmp_path / "v")) == 1
    assert "byte 0 is no UTF-8" in capsys.readouterr().err
    assert purge(one, "--value-from", str(tmp_path / "none")) == 1
    assert "none: No such file" in capsys.readouterr().err


def test_a_version_that_corpora_name_is_told_before_anything_is_gone(
    flow: MakeFlow, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    one = flow({"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1)})
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(one.root)]))
    one.run()
    version = find_version(one.settings.home, "sft_dataset")
    (kept,) = provenance(version)
    for named in (version.version, version.version[:6]):
        monkeypatch.setenv("FLYWHEEL_CORPORA", json.dumps([f"dataset:sft_dataset@{named}"]))
        assert purge(one, "--trace", kept.trace_ids[0]) == 1
        assert f"sft_dataset@{version.version} holds a row of it" in capsys.readouterr().err
        assert find_version(one.settings.home, "sft_dataset").version == version.version
        assert not (one.lake.root / "purging").exists()
    monkeypatch.delenv("FLYWHEEL_CORPORA")
    assert purge(one, "--trace", kept.trace_ids[0]) == 0


@pytest.mark.parametrize("name", ["for zoë quill", "customer-471142"])
def test_a_run_whose_name_holds_the_value_is_gone_until_its_folder_is_renamed(
    flow: MakeFlow, monkeypatch: pytest.MonkeyPatch, capsys: Any, name: str
) -> None:
    secret = name.removeprefix("for ")
    one = flow({f"of {name}": group("a", (1.0, 0.9, 0.2, 0.0), 1), "r2": group("b", (1.0, 0.0, 0.3, 0.4), 50)})
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(one.root)]))
    home = str(one.settings.home)
    assert main(["refresh", "--home", home]) == 0
    assert main(["withdraw", "--run", f"of {name}", "--reason", f"asked by {secret}", "--home", home]) == 0
    assert purge(one, *value(one, secret)) == 0
    spelt = (secret, run_id_of(secret))
    assert [path for text in spelt for path in left(one, text)] == []
    assert [str(p) for p in one.settings.home.rglob("*") for text in spelt if text in p.name] == []
    capsys.readouterr()
    assert main(["refresh", "--home", home]) == 0
    told = capsys.readouterr()
    assert "data: purged: the name of the folder holds an erased value; rename it" in told.err
    assert secret not in told.out + told.err
    assert [path for text in spelt for path in left(one, text)] == []
    (one.root / "runs" / f"of {name}").rename(one.root / "runs" / "r1")
    assert main(["refresh", "--home", home]) == 0
    fates = {f["trace_id"]: f["reason"] for f in fates_of(find_version(one.settings.home, "rl_dataset")).to_pylist()}
    assert fates.keys() == {None, "b-0", "b-1", "b-2", "b-3"}  # the texts of its rollouts were erased too


def test_an_erasure_that_found_nothing_else_to_do_is_ended(one: Flow, capsys: Any) -> None:
    """Killed when all but the datasets was done, no trace of it is found any more."""
    (one.lake.root / "purging").write_text(json.dumps(["kto_dataset"]))
    remove(find_version(one.settings.home, "kto_dataset").path)
    assert purge(one, "--trace", "nobody", "--dry-run") == 0
    assert (one.lake.root / "purging").exists()
    assert purge(one, "--trace", "nobody") == 0
    assert not (one.lake.root / "purging").exists()
    assert find_version(one.settings.home, "kto_dataset").rows > 0


def test_an_export_into_the_home_waits_for_an_erasure(one: Flow) -> None:
    home = one.settings.home
    for out, waits in ((home / "exports" / "mine", True), (home.parent / "away", False)):
        handle = os.open(home / "lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(handle, fcntl.LOCK_EX)
        words = ["export", "sft_dataset", "--format", "trl-sft", "--out", str(out), "--home", str(home)]
        exporting = Thread(target=main, args=(words,))
        exporting.start()
        exporting.join(2 if waits else 120)
        assert exporting.is_alive() is waits
        os.close(handle)
        exporting.join(120)
        assert out.is_dir()
