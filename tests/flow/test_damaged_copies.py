"""What the lake keeps to save work is made again where something else stands in its place, and nothing fails."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flow.conftest import Flow, write_runs
from tests.flow.test_reused import OPTIONS, write_another
from tests.flow.test_spread import corpus
from trace_flywheel.flow import datasets, gathered, tables
from trace_flywheel.flow.names import ADVANTAGES, CLASSIFIER
from trace_flywheel.flow.redaction_report import REPORT, reported
from trace_flywheel.lake.dataset import find_version
from trace_flywheel.lake.index import GATHERED, LINES
from trace_flywheel.lake.segments import FOLDER

KEPT = (f"sft_dataset{LINES}", GATHERED, ADVANTAGES, CLASSIFIER, REPORT)


def in_place(other: Callable[[Path], object]) -> Callable[[Path], None]:
    """Something else instead of the whole folder."""

    def do(folder: Path) -> None:
        shutil.rmtree(folder)
        other(folder)

    return do


def a_file_for_the_version(folder: Path) -> None:
    version = folder / (folder / "current").read_text().strip()
    shutil.rmtree(version)
    version.write_text("")


def a_folder_for_the_pointer(folder: Path) -> None:
    (folder / "current").unlink()
    (folder / "current").mkdir()


def on_another_disk(folder: Path) -> None:
    moved = folder.parent.parent.parent / "elsewhere" / folder.name
    shutil.move(folder, moved)
    folder.symlink_to(moved)


def a_link_beside(folder: Path) -> None:
    (folder / "beside").symlink_to(folder.parent.parent, target_is_directory=True)


def each_file(change: Callable[[Path], object], name: str = "*") -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        for path in list(folder.rglob(name)):
            if path.is_file():
                change(path)

    return do


HOW: dict[str, Callable[[Path], None]] = {
    "a file": in_place(Path.touch),
    "a link to nowhere": in_place(lambda folder: folder.symlink_to("nowhere")),
    "a link to a file": in_place(lambda folder: folder.symlink_to(folder.parent / "format")),
    "a pipe": in_place(os.mkfifo),
    "an empty folder": in_place(Path.mkdir),
    "a file for the version": a_file_for_the_version,
    "a folder for the pointer": a_folder_for_the_pointer,
    "a link in the folder": a_link_beside,
    "a folder on another disk": on_another_disk,
    "empty files": each_file(lambda path: path.write_bytes(b"")),
    "bytes that are no text": each_file(lambda path: path.write_bytes(b"\xff\xfe"), "current"),
    "an unknown sidecar": each_file(lambda path: path.write_text("{}"), "sidecar.json"),
    "no sidecar": each_file(Path.unlink, "sidecar.json"),
}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before")
    write_runs(folder / "data", corpus())
    (folder / "data" / "old.jsonl").write_text('{"prompt": "What is it?", "completion": "It is a stone."}\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathered, "FEW", 0)
        run(folder)
    return folder


def run(folder: Path) -> Flow:
    flow = Flow(folder / "data", folder / "home", corpora=[folder / "data" / "old.jsonl"], **OPTIONS)
    flow.ingest()
    curation = flow.curation()
    tables.grouped_advantages(curation)
    datasets.sft_dataset(curation)
    tables.depth_classifier(curation)
    reported(flow.settings)
    return flow


def published(flow: Flow) -> dict[str, bytes]:
    folder = find_version(flow.settings.home, "sft_dataset").path
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def wanted(before: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What is published once a run more has come, where nothing was damaged."""
    folder = tmp_path_factory.mktemp("wanted")
    shutil.copytree(before, folder / "now", symlinks=True)
    write_another(folder / "now")
    return published(run(folder / "now"))


@pytest.mark.parametrize("how", HOW)
def test_what_stands_in_the_place_of_a_copy_fails_nothing(
    how: str, before: Path, wanted: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathered, "FEW", 0)
    folder = tmp_path / "now"
    shutil.copytree(before, folder, symlinks=True)
    (folder / "elsewhere").mkdir()
    lake = folder / "home" / "lake"
    for name in KEPT:
        assert (lake / name).is_dir()
        HOW[how](lake / name)
    if how not in ("a file for the version", "a folder for the pointer"):  # whose names there are other ones
        for shelf in (lake / FOLDER).glob("*/*"):
            HOW[how](shelf)
    write_another(folder)
    flow = run(folder)
    assert published(flow) == wanted
    for name in KEPT:
        current = flow.lake.current(name)
        assert current is not None, name
        assert flow.lake.is_whole(current), name
