"""Loops kept as machine code: the same numbers, and a file is taken for what it was made of only."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import llvmlite.binding
import numpy as np
import pytest

from trace_flywheel.curation import compiled, machine_code
from trace_flywheel.curation.compiled import compiled as declared
from trace_flywheel.curation.machine_code import SUFFIX, kind_of

SCALE = 3


@declared
def scaled(value: int) -> int:
    return value * SCALE


@declared
def weighed(table: np.ndarray, rows: np.ndarray, factor: float, negative: bool, first: int) -> float:
    total = 0.0
    for i in range(first, table.shape[0]):
        for j in range(table.shape[1]):
            total += factor * table[i, j] * scaled(rows[i])
    return -total if negative else total


@declared
def marked(values: np.ndarray, mark: int) -> None:
    for i in range(len(values)):
        values[i] = mark


@declared
def doubled(values: np.ndarray) -> np.ndarray:
    return values * 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for loop in (scaled, weighed, marked, doubled):
        monkeypatch.setattr(loop, "_loop", None)
        monkeypatch.setattr(loop, "_kept", {})
    return tmp_path


def again(monkeypatch: pytest.MonkeyPatch, *loops: object) -> None:
    """As a process that has made nothing yet."""
    for loop in loops:
        monkeypatch.setattr(loop, "_loop", None)


TABLE = np.arange(6, dtype=np.float32).reshape(2, 3)
ROWS = np.array([1, 10])


def test_arrays_of_any_form_and_numbers_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):  # compiled, then loaded
        again(monkeypatch, weighed, scaled)
        # 0.5 * 3 * (1 * (0 + 1 + 2) + 10 * (3 + 4 + 5))
        assert weighed(TABLE, ROWS, 0.5, False, 0) == 184.5
        assert weighed(TABLE, ROWS, 0.5, True, 1) == -180.0
        assert weighed(TABLE[:0], ROWS, 0.5, False, 0) == 0.0
        assert weighed(TABLE[1:], ROWS[1:], 0.5, False, 0) == 180.0
    assert weighed._loop is None
    assert len(list(folder.glob(f"*weighed*{SUFFIX}"))) == 1


def test_an_array_is_written_in_place_and_nothing_is_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mark in (7, 9):
        again(monkeypatch, marked)
        values = np.zeros(5, dtype=np.uint8)
        assert marked(values[1:4], mark) is None
        assert values.tolist() == [0, mark, mark, mark, 0]


def test_kinds_of_their_own_have_files_of_their_own(folder: Path) -> None:
    for kind in (np.uint8, np.int64):
        marked(np.zeros(3, dtype=kind), 1)
        marked._loop = None
    assert len(list(folder.glob(f"*marked*{SUFFIX}"))) == 2


def test_a_loop_that_makes_an_array_stays_with_the_compiler(folder: Path) -> None:
    assert doubled(np.arange(3)).tolist() == [0, 2, 4]
    assert not list(folder.glob(f"*doubled*{SUFFIX}"))


def test_what_is_no_whole_array_or_plain_number_is_not_taken(folder: Path) -> None:
    assert kind_of(ROWS) == ("<i8", 1, True)
    assert kind_of(np.frombuffer(b"ab", dtype=np.uint8)) == ("|u1", 1, False)
    assert [kind_of(1), kind_of(1.0), kind_of(True)] == [("<i8", 0, False), ("<f8", 0, False), ("|b1", 0, False)]
    assert [kind_of(other) for other in (TABLE.T, np.arange(6)[::2], ROWS.astype(">i8"), np.uint64(1), b"", None)] == [
        None
    ] * 6
    values = np.zeros(6, dtype=np.uint8)
    marked(values[::2], 4)
    assert values.tolist() == [4, 0, 4, 0, 4, 0]
    assert not list(folder.glob(f"*{SUFFIX}"))


def test_a_constant_of_a_loop_that_is_called_is_part_of_what_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = weighed._sources()
    monkeypatch.setitem(globals(), "SCALE", 4)
    assert weighed._sources() != before


@pytest.mark.parametrize("harm", [lambda data: b"", lambda data: data[:-1], lambda data: data[:-1] + b"x"])
def test_a_file_that_is_not_whole_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch, harm) -> None:
    marked(np.zeros(3, dtype=np.uint8), 1)
    (file,) = folder.glob(f"*marked*{SUFFIX}")
    whole = file.read_bytes()
    file.write_bytes(harm(whole))
    again(monkeypatch, marked)
    values = np.zeros(3, dtype=np.uint8)
    marked(values, 5)
    assert values.tolist() == [5, 5, 5]
    again(monkeypatch, marked)
    marked(values, 6)
    assert values.tolist() == [6, 6, 6]
    assert marked._loop is None


def test_loops_of_the_package_that_take_most_are_kept(tmp_path: Path) -> None:
    """The greedy pass divides: kept all the same, because no loop divides by nothing."""
    code = """
import numpy as np
from trace_flywheel.curation import compiled
compiled.PATIENCE = -1.0
from trace_flywheel.curation.dedup import matches
from trace_flywheel.curation.folding import folded_texts
from trace_flywheel.curation.sketch import Spans
spans = Spans.of_texts(["one two three four five six", "one two three four five six"])
matches(np.arange(2), np.arange(2), spans, spans, 0.6)
folded_texts([b"A"])
"""
    root = Path(compiled.__file__).parents[2]
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PATH": ""}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root, env=environment)
    kept = {file.name.split("-")[0].rpartition(".")[2] for file in tmp_path.glob(f"*{SUFFIX}")}
    assert kept == {"_distil", "_fill", "_fold", "_walk"}


@pytest.mark.parametrize(
    ("told", "taken"),
    [
        ("+avx2,+avx512f,+avx512vbmi2", "+avx2,+avx512f,+avx512vbmi2,-prefer-256-bit"),
        ("+avx2,+avx512f,-avx512vbmi2", "+avx2,+avx512f,-avx512vbmi2"),
        ("+neon", "+neon"),
    ],
)
def test_wide_registers_are_used_whole_where_they_cost_no_clock(
    told: str, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llvmlite.binding, "get_host_cpu_features", lambda: SimpleNamespace(flatten=lambda: told))
    assert machine_code.features.__wrapped__() == taken
