"""The hostile run itself: it finds what is broken, repeats itself, and a few of its rounds are sound."""

import random
from pathlib import Path

import pytest

from tests.harden import erasures, mutations, readers, secrets
from tests.harden.mutations import damage_tree, damaged_bytes
from trace_flywheel.sample.write import write_sample
from trace_flywheel.sources import registry
from trace_flywheel.sources.eval_run import EvalRunReader


@pytest.mark.parametrize("seed", range(6))
def test_a_round_is_sound(seed: int, tmp_path: Path) -> None:
    assert list(readers.round_of(seed, tmp_path / "work")) == []


def test_a_reader_that_breaks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(EvalRunReader):
        def read(self, run, unit, options):  # type: ignore[no-untyped-def]
            raise KeyError("unforeseen")

    monkeypatch.setattr(registry, "READERS", (Broken(), *registry.READERS))
    faults = list(readers.round_of(0, tmp_path / "work"))
    assert any("unforeseen: KeyError" in fault for fault in faults)


def test_a_validator_that_disagrees_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "secrets", lambda: {"role": "user"})
    assert any("planted role in the rows" in f for seed in range(3) for f in readers.round_of(seed, tmp_path / "w"))


def test_a_seed_repeats_its_damage(tmp_path: Path) -> None:
    data = bytes(range(256)) * 3
    assert damaged_bytes(data, random.Random(5)) == damaged_bytes(data, random.Random(5))
    told = []
    for name in ("a", "b"):
        write_sample(tmp_path / name)
        told.append(damage_tree(tmp_path / name, random.Random(9)))
    assert told[0] == told[1]


def test_a_file_that_is_too_deep_to_read_is_damaged_all_the_same() -> None:
    deep = b"[" * 100_000
    assert mutations._value(deep, random.Random(0)) != deep


def test_a_folder_with_a_pipe_is_copied_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "run" / "results.json"
    path.parent.mkdir()
    path.touch()
    for place in ("pipe", "copied"):
        mutations.PLACES[place](path, [path], random.Random(0))
    assert (tmp_path / "run-copy" / "results.json").is_fifo()


def test_a_secret_that_stays_and_a_near_miss_that_goes_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "matrix", lambda number, seed: [("a kind", "a form", "left to stay", ("left",))])
    monkeypatch.setattr(secrets, "near_misses", lambda number, seed: [("words", "password: tr0ub4dor")])
    assert list(secrets.round_of(0, 1, tmp_path)) == [
        "kind a kind: 1 of 1 stay",
        "form a form: 1 of 1 stay",
        "near misses, words: 1 of 1 are touched",
    ]


@pytest.mark.slow
def test_a_killed_erasure_ends_as_if_nobody_had_disturbed_it(tmp_path: Path) -> None:
    assert list(erasures.killed(5, 6, tmp_path / "killed")) == []
    assert list(erasures.disk_full(5, 4, tmp_path / "full")) == []


def test_an_erasure_that_leaves_something_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasures, "_erase", lambda *asked: 0)
    assert any("holds it" in fault for fault in erasures.killed(0, 0, tmp_path))
