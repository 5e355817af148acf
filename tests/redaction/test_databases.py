"""A database that was kept sees what a compiled one sees, and nothing but a whole one of the same rules is taken."""

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.redaction import databases
from trace_flywheel.redaction.databases import database_of

EXPRESSIONS = ((0, r"ghp_[A-Za-z0-9]{36}"), (1, r"AKIA[0-9A-Z]{16}"), (2, r"\d{3}-\d{2}-\d{4}"))
TEXT = b"a ghp_" + b"a1" * 18 + b" and AKIA" + b"ABCD" * 4 + b" and 123-45-6789."
SEEN = [(0, 42), (1, 67), (2, 83)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(databases, "FOLDER", tmp_path / "kept")
    return tmp_path / "kept"


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many expressions each database had that was compiled."""
    made: list[int] = []
    compiled = databases._compiled
    monkeypatch.setattr(databases, "_compiled", lambda e: (made.append(len(e)), compiled(e))[1])
    return made


def seen(database: object, data: bytes = TEXT) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    database.scan(data, match_event_handler=lambda rule, _, end, *__: found.append((rule, end)))  # type: ignore[attr-defined]
    return found


def test_what_is_kept_is_loaded_and_sees_the_same(folder: Path, compiles: list[int]) -> None:
    assert seen(database_of(EXPRESSIONS)) == SEEN
    assert seen(database_of(EXPRESSIONS)) == SEEN
    assert compiles == [3]
    assert len(list(folder.iterdir())) == 1


def test_what_killed_processes_left_goes_after_a_day_and_takes_no_place(folder: Path) -> None:
    folder.mkdir()
    left = [folder / f"detectors-{number}.part" for number in range(databases.MOST)]
    for path in left:
        path.touch()
    os.utime(left[0], (0, 0))
    database_of(EXPRESSIONS)
    assert sorted(path.name for path in folder.glob("*.part")) == sorted(path.name for path in left[1:])
    assert len(list(folder.glob("*.hs"))) == 1


COMPILED = databases._compiled(EXPRESSIONS)
KEPT = database_of(EXPRESSIONS) and database_of(EXPRESSIONS)


@given(st.lists(st.sampled_from([b"ghp_", b"a1" * 18, b"AKIA", b"ABCD" * 4, b"123-45-6789", b" "])).map(b"".join))
def test_a_kept_database_sees_what_a_compiled_one_sees(data: bytes) -> None:
    assert seen(KEPT, data) == seen(COMPILED, data)


def test_other_expressions_and_other_ids_are_another_database(folder: Path, compiles: list[int]) -> None:
    database_of(EXPRESSIONS)
    assert seen(database_of(EXPRESSIONS[:2])) == SEEN[:2]
    assert seen(database_of([(i + 7, e) for i, e in EXPRESSIONS])) == [(i + 7, end) for i, end in SEEN]
    assert compiles == [3, 2, 3]


@pytest.mark.parametrize(
    "damaged",
    [
        lambda held: b"",
        lambda held: held[:31],
        lambda held: held[:-1],
        lambda held: held[:200] + bytes([held[200] ^ 1]) + held[201:],
        lambda held: hashlib.sha256(b"no database").digest() + b"no database",
        lambda held: hashlib.sha256(b"").digest(),
        lambda held: hashlib.sha256(held[32:-9]).digest() + held[32:-9],
    ],
    ids=["empty", "cut in its digest", "cut", "a bit", "not Hyperscan's", "nothing", "cut with its digest"],
)
def test_what_is_damaged_is_compiled_anew_and_kept_again(damaged, folder: Path, compiles: list[int]) -> None:
    database_of(EXPRESSIONS)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damaged(whole))
    assert seen(database_of(EXPRESSIONS)) == SEEN
    assert compiles == [3, 3]
    assert path.read_bytes() == whole
    assert list(folder.iterdir()) == [path]


def test_where_nothing_can_be_written_every_process_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiles: list[int]
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(databases, "FOLDER", tmp_path / "file")
    assert seen(database_of(EXPRESSIONS)) == seen(database_of(EXPRESSIONS)) == SEEN
    assert compiles == [3, 3]


def test_no_more_than_so_many_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch, compiles: list[int]) -> None:
    monkeypatch.setattr(databases, "MOST", 2)
    for size in (1, 2, 3, 3, 1):
        assert seen(database_of(EXPRESSIONS[:size])) == SEEN[:size]
    assert compiles == [1, 2, 3, 3]
    assert len(list(folder.iterdir())) == 2
