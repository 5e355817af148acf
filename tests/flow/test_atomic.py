"""A file is there whole or not at all."""

import pytest

from trace_flywheel.flow.atomic import replaced
from trace_flywheel.records.errors import FlywheelError


def test_it_takes_its_place_at_the_end(tmp_path):
    path = tmp_path / "new" / "rows.jsonl"
    with replaced(path) as file:
        file.write(b"1\n")
        assert not path.exists()
    assert path.read_bytes() == b"1\n"
    assert [p.name for p in path.parent.iterdir()] == ["rows.jsonl"]


def half_written(path):
    with replaced(path) as file:
        file.write(b"half")
        raise RuntimeError


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("before")
    with pytest.raises(RuntimeError):
        half_written(path)
    assert path.read_text() == "before"
    assert not list(tmp_path.glob(".rows.jsonl.*"))


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(FlywheelError, match="is a folder"), replaced(tmp_path):
        pass
