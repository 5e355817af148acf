"""Recordings held out of training: by task, for good, and with nothing in training that is asked there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.recordings import answer, record, rows_of, user
from trace_flywheel.curation.splits import split_of
from trace_flywheel.flow.recordings.report import Report
from trace_flywheel.flow.recordings.traces_to_data import Request, traces_to_data
from trace_flywheel.records.canonical import folded, sha256_hex
from trace_flywheel.settings import Splits

HALF = Splits(held_out=0.5)
Files = tuple[Report, list[dict[str, Any]], list[dict[str, Any]]]


def task_of(question: str, name: str = "atraj") -> str:
    return f"{name}/{sha256_hex(folded(question).encode())[:12]}"


def is_out(question: str, name: str = "atraj") -> bool:
    return split_of(task_of(question, name), HALF, 42) == "held_out"


def questions(out: bool, n: int, name: str = "atraj") -> list[str]:
    """Questions, unlike each other, of tasks that are held out or not."""
    found = (f"what is w{i}a w{i}b w{i}c w{i}d w{i}e w{i}f?" for i in range(1000))
    return [text for text in found if is_out(text, name) is out][:n]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Files]:
    def export(**options: Any) -> Files:
        out, held = tmp_path / "out.jsonl", tmp_path / "held.jsonl"
        asked = {"folder": tmp_path / "in", "out": out, "held_out": held, "splits": HALF, **options}
        report = traces_to_data(Request(**asked))
        if options.get("mode") != "dpo":
            assert report.harvested == report.emitted + sum(report.dropped.values())
        files = [rows_of(path) if path.exists() else [] for path in (out, held)]
        assert report.emitted == sum(map(len, files))
        assert report.held_out == len(files[1])
        return report, *files

    return export


def test_a_task_is_held_out_by_the_hash_of_the_pipelines_splits(tmp_path: Path, run: Callable[..., Files]) -> None:
    (stays,), (leaves,) = questions(False, 1), questions(True, 1)
    record(tmp_path / "in", "a", user(stays), answer("1"))
    record(tmp_path / "in", "b", user(leaves), answer("2"))
    _, train, held = run()
    assert [row["rollout_id"] for row in train] == ["a"]
    assert [row["rollout_id"] for row in held] == ["b"]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.integers(0, 40), min_size=1, max_size=12), st.sets(st.integers(0, 40), max_size=12))
def test_what_is_held_out_stays_out_as_recordings_come(tmp_path_factory: Any, first: set[int], later: set[int]) -> None:
    base = tmp_path_factory.mktemp("sticky")

    def held() -> set[str]:
        traces_to_data(Request(folder=base / "in", out=base / "o", held_out=base / "h", splits=HALF, threshold=2.0))
        return {row["rollout_id"] for row in rows_of(base / "h")}

    for i in first:
        record(base / "in", f"r{i}", user(f"question number {i}?"), answer(f"x{i}"))
    before = held()
    for i in later:
        record(base / "in", f"r{i}", user(f"question number {i}?"), answer(f"x{i}"))
    assert {f"r{i}" for i in first if is_out(f"question number {i}?")} == before
    assert held() & {f"r{i}" for i in first} == before


@pytest.mark.parametrize("export", ["answer-only", "trajectory"])
def test_a_near_question_of_another_task_leaves(tmp_path: Path, run: Callable[..., Files], export: str) -> None:
    words = " ".join(f"word{i}" for i in range(60))
    texts = [f"{words} {i}" for i in range(40)]
    out, stay = (next(text for text in texts if is_out(text) is wanted) for wanted in (True, False))
    record(tmp_path / "in", "kept", user(out), answer("an answer of its own"))
    record(tmp_path / "in", "near", user(stay), answer("quite another thing was said"))
    report, train, held = run(export=export)
    assert (train, [row["rollout_id"] for row in held]) == ([], ["kept"])
    assert report.dropped["crosses_held_out"] == 1
    (told,) = report.rollouts_dropped
    assert (told["rollout_id"], told["reason"], told["near"], told["rows"]) == ("near", "crosses_held_out", "kept", 1)
    assert told["jaccard_prompt"] >= 0.85


def test_the_same_question_under_another_task_name_or_in_a_later_turn_leaves(
    tmp_path: Path, run: Callable[..., Files]
) -> None:
    text = next(q for q in questions(True, 100) if not is_out(q, "named"))
    (own,) = questions(False, 1)
    more = [user(f"and what about {' '.join(f'more{i}' for i in range(80))}?"), answer("that")]
    record(tmp_path / "in", "held", user(text), answer("1"))
    record(tmp_path / "in", "named", user(text), answer("2"), *more, task="named")
    record(tmp_path / "in", "later", user(own), answer("3"), *more, user(text.upper()), answer("4"))
    report, train, _ = run()
    assert [(row["rollout_id"], row["step"]) for row in train] == [("later", 1), ("later", 3)]
    assert report.dropped["crosses_held_out"] == 3
    assert [told["rollout_id"] for told in report.rollouts_dropped] == ["named"]


def test_pairs_and_answers_never_stand_in_both(tmp_path: Path, run: Callable[..., Files]) -> None:
    for wanted in (True, False):
        for text in questions(wanted, 2):
            name = f"{wanted}-{text[8:11]}"
            record(tmp_path / "in", f"{name}-good", user(text), answer("good " + text, reward=1.0))
            record(tmp_path / "in", f"{name}-bad", user(text), answer("bad " + text, reward=0.0))
            record(tmp_path / "in", f"{name}-lone", user(text), answer("so so " + text, reward=0.5))
    for mode, rows in (("dpo", 2), ("kto", 2)):
        report, train, held = run(mode=mode)
        assert (len(train), len(held)) == (rows, rows)
        prompts = [{row["prompt"][0]["content"] for row in part} for part in (train, held)]
        assert prompts == [set(questions(False, 2)), set(questions(True, 2))]
        assert report.dropped["crosses_held_out"] == 0


def test_a_dry_run_counts_and_writes_nothing(tmp_path: Path) -> None:
    record(tmp_path / "in", "a", user(questions(True, 1)[0]), answer("2"))
    out, held = tmp_path / "out.jsonl", tmp_path / "held.jsonl"
    asked = Request(folder=tmp_path / "in", out=out, held_out=held, splits=HALF, dry_run=True)
    assert traces_to_data(asked).held_out == 1
    assert not out.exists()
    assert not held.exists()
