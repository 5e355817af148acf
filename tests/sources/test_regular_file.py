import os
from pathlib import Path

import pytest

from trace_flywheel.sources import benchflow_folders as folders
from trace_flywheel.sources.regular_file import open_regular


def read(path: Path, root: Path) -> bytes:
    with open_regular(path, root) as file:
        return file.read()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("root/inner", "rootless"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_bytes(folder.encode())
    return tmp_path / "root"


def test_a_file_below_its_root_is_read_also_where_links_lie_above_or_on_the_way(root: Path) -> None:
    assert read(root / "inner/file", root) == b"root/inner"
    (root.parent / "alias").symlink_to(root)
    assert read(root.parent / "alias/inner/file", root.parent / "alias") == b"root/inner"
    assert read(root.parent / "alias/inner/file", root) == b"root/inner"
    (root / "linked").symlink_to(root / "inner")
    assert read(root / "linked/file", root) == b"root/inner"


@pytest.mark.parametrize("name", ["out/file", "../rootless/file", "inner/../../rootless/file"])
def test_a_file_that_lies_elsewhere_is_refused_however_it_is_named(root: Path, name: str) -> None:
    (root / "out").symlink_to(root.parent / "rootless")
    with pytest.raises(OSError, match="leads out of its root"):
        open_regular(root / name, root)


def test_a_folder_beside_the_root_with_its_name_in_front_is_not_below_it(root: Path) -> None:
    with pytest.raises(OSError, match="leads out of its root"):
        open_regular(root.parent / "rootless/file", root)


def test_a_folder_is_denied_only_where_the_system_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [folders.is_denied(str(root / name)) for name in ("inner", "inner/file", "gone")] == [False, False, False]

    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refuse)
    assert folders.is_denied(str(root / "inner"))
