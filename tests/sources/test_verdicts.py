import json
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.records.fate import Drop
from trace_flywheel.records.grading import JudgeEntry, VerdictEntry
from trace_flywheel.sources.judge_scores import read_judge_scores
from trace_flywheel.sources.verdicts import read_verdicts


def written(tmp_path: Path, *rows: Any) -> Path:
    path = tmp_path / "grades.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_verdict_says_who_gave_it(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"trace_id": "t", "verdict": "pass", "grader": "ann"},
        {"trace_id": "t", "run_id": "r", "verdict": "OK", "reward": 1, "grader": "judge", "grader_version": "2"},
    )
    assert list(read_verdicts(path, {"OK": "pass"})) == [
        VerdictEntry("t", "pass", "ann", path="grades.jsonl", line=1),
        VerdictEntry("t", "pass", "judge", "2", 1.0, "r", "grades.jsonl", 2),
    ]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"verdict": "pass", "grader": "g"}, "trace_id"),
        ({"trace_id": "t", "verdict": "pass"}, "grader"),
        ({"trace_id": "t", "verdict": "PASS", "grader": "g"}, "verdict_map"),
        ({"trace_id": "t", "grader": "g"}, "pass or fail"),
        ({"trace_id": "t", "verdict": "pass", "grader": "g", "reward": "1"}, "finite"),
        ({"trace_id": "t", "verdict": "pass", "grader": "g", "reward": float("nan")}, "finite"),
        ("text", "object"),
    ],
)
def test_a_line_that_is_no_verdict_is_told_with_its_number(tmp_path: Path, row: Any, text: str) -> None:
    (drop,) = read_verdicts(written(tmp_path, row), {})
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.path, drop.evidence["line"]) == ("unknown_shape", "grades.jsonl", 1)
    assert text in drop.evidence["text"]


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    for read in (lambda p: read_verdicts(p, {}), read_judge_scores):
        (drop,) = read(tmp_path / "none.jsonl")
        assert isinstance(drop, Drop)
        assert drop.reason == "unreadable_file"


def test_scores_leave_their_scale(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"trace_id": "t", "value": 0.25},
        {"trace_id": "t", "run_id": "r", "name": "tone", "value": 7, "scale": [1, 10], "judge": "j"},
        {"trace_id": "t", "value": -1, "scale": [-1, 1]},
    )
    scores = list(read_judge_scores(path))
    assert all(isinstance(score, JudgeEntry) for score in scores)
    assert [(s.name, s.judge, s.run_id) for s in scores if isinstance(s, JudgeEntry)] == [
        ("score", "", None),
        ("tone", "j", "r"),
        ("score", "", None),
    ]
    assert [s.value for s in scores if isinstance(s, JudgeEntry)] == [0.25, pytest.approx(2 / 3), 0.0]


@pytest.mark.parametrize(
    "row",
    [
        {"value": 1},
        {"trace_id": "t"},
        {"trace_id": "t", "value": 2},
        {"trace_id": "t", "value": True},
        {"trace_id": "t", "value": float("nan")},
        {"trace_id": "t", "value": 11, "scale": [1, 10]},
        {"trace_id": "t", "value": 1, "scale": [1, 1]},
        {"trace_id": "t", "value": 1, "scale": "1-10"},
        {"trace_id": "t", "value": 1, "name": 3},
        [],
    ],
)
def test_a_line_that_is_no_score_is_told_with_its_number(tmp_path: Path, row: Any) -> None:
    (drop,) = read_judge_scores(written(tmp_path, row))
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.evidence["line"]) == ("unknown_shape", 1)
