"""`--mode kto`: scored answers that no pair uses, good or bad, and why a recording gives none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.recordings import answer, call, record, rows_of, user
from trace_flywheel.flow.judgments import Policy
from trace_flywheel.flow.recordings.report import Report
from trace_flywheel.flow.recordings.traces_to_data import Request, traces_to_data
from trace_flywheel.trainers.kto import LAYOUT

Run = Callable[..., tuple[Report, list[dict[str, Any]]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def export(**options: Any) -> tuple[Report, list[dict[str, Any]]]:
        out = tmp_path / "out.jsonl"
        report = traces_to_data(Request(**{"folder": tmp_path / "in", "out": out, "mode": "kto", **options}))
        assert report.harvested == report.emitted + sum(report.dropped.values())
        return report, rows_of(out)

    return export


def test_a_scored_answer_without_a_pair_is_a_row_and_what_pairs_hold_is_none(tmp_path: Path, run: Run) -> None:
    record(tmp_path / "in", "a", user("Capital of Norway?"), answer("Bergen", reward=0))
    record(tmp_path / "in", "b", user("Capital of Norway?"), answer("Oslo", reward=1))
    record(tmp_path / "in", "c", user("list it"), *call("ls", "x"), answer("x", reward=0.5), task="files")
    record(tmp_path / "in", "d", user("Who wrote Faust?"), answer("Schiller", reward=-1))
    record(tmp_path / "in", "e", user("Who wrote Emma?"), answer("Austen"))
    report, rows = run()
    assert [list(LAYOUT.validate(row)) for row in rows] == [[], []]
    assert [(row["rollout_id"], row["label"], row["score"], row["labelled_by"]) for row in rows] == [
        ("c", True, 0.5, "reward"),
        ("d", False, -1.0, "reward"),
    ]
    assert rows[0]["prompt"] == [{"role": "user", "content": "list it"}]
    assert [m["role"] for m in rows[0]["completion"]] == ["assistant", "tool", "assistant"]
    assert (rows[0]["task"], rows[1]["task"]) == ("files", None)
    assert report.dropped == {"no_score": 1, "used_in_pair": 2}
    assert report.labels == {"good": 1, "bad": 1}


def test_judges_label_what_has_no_reward_by_their_threshold(tmp_path: Path, run: Run) -> None:
    for name, value in (("a", 0.69), ("b", 0.7)):
        record(tmp_path / "in", name, user(f"question {name}"), answer(name))
        with (tmp_path / "scores.jsonl").open("a") as file:
            file.write(json.dumps({"target": {"trace_id": name}, "value": value}) + "\n")
    report, rows = run(judgments=tmp_path / "scores.jsonl", policy=Policy(threshold=0.7))
    assert [(row["label"], row["labelled_by"]) for row in rows] == [(False, "judge"), (True, "judge")]
    assert report.judge is not None
    assert report.judge["rows_judged"] == 2


def test_equal_answers_are_one_row_and_those_scored_both_ways_none(tmp_path: Path, run: Run) -> None:
    for name, reward in (("a", 1), ("b", 1)):
        record(tmp_path / "in", name, user("q"), answer("same", reward=reward))
    for name, reward in (("c", 1), ("d", 0)):
        record(tmp_path / "in", name, user("r"), answer("both", reward=reward))
    report, rows = run()
    assert [row["rollout_id"] for row in rows] == ["a"]
    assert report.dropped == {"conflicting_label": 2, "exact_duplicate": 1}
