"""Judges' files: addresses, scales, several judges, and faults with their line."""

import json
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.flow.judgments import Judgment, Judgments, Policy, combined, names, passes, preview, request
from trace_flywheel.records.errors import FlywheelError


def file_of(tmp_path: Path, *lines: dict[str, Any]) -> Judgments:
    path = tmp_path / "scores.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Judgments(path)


def said(*values: float, name: str = "score") -> list[Judgment]:
    return [Judgment(i, name, "j", value) for i, value in enumerate(values)]


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"value": 0.25}, 0.25),
        ({"value": 5, "scale": [1, 9]}, 0.5),
        ({"value": -1, "scale": [-1, 1]}, 0.0),
        ({"label": "Pass"}, 1.0),
        ({"label": "bad"}, 0.0),
        ({"value": True}, 1.0),
        ({"value": "no"}, 0.0),
    ],
)
def test_values_become_zero_to_one(tmp_path: Path, given: dict[str, Any], value: float) -> None:
    found = file_of(tmp_path, {"target": {"trace_id": "t"}, **given})
    assert [j.value for j in found.of_row("t", "a.atraj", 1, "h")] == [value]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"target": {"trace_id": "t"}, "value": 7}, "no number from 0 to 1"),
        ({"target": {"trace_id": "t"}, "value": None}, "value None"),
        ({"target": {"trace_id": "t"}, "label": "meh"}, "'meh'"),
        ({"target": {"trace_id": "t"}, "value": 1, "scale": [1]}, "scale is"),
        ({"target": {"trace_id": "t"}, "value": 1, "scale": [1, 1]}, "no number from 1 to 1"),
        ({"target": {"source": "a"}, "value": 1}, "target holds trace_id"),
        ({"value": 1}, "target holds trace_id"),
        ({"custom_id": "h", "response": {"body": {"choices": []}}}, "batch answer"),
        ({"custom_id": "h", "error": {"code": "x"}}, "batch answer"),
    ],
)
def test_a_line_that_is_no_judgment_is_named(tmp_path: Path, line: dict[str, Any], says: str) -> None:
    with pytest.raises(FlywheelError, match=r"scores.jsonl:2: ") as raised:
        file_of(tmp_path, {"target": {"trace_id": "t"}, "value": 1}, line)
    assert says in str(raised.value)


def test_a_rating_is_never_guessed_from_free_text(tmp_path: Path) -> None:
    body = {"choices": [{"message": {"content": "I would say 7, B is worse"}}]}
    with pytest.raises(FlywheelError, match="JSON with a rating"):
        file_of(tmp_path, {"custom_id": "h", "response": {"body": body}})


def test_a_rows_own_judgment_counts_before_its_rollouts(tmp_path: Path) -> None:
    found = file_of(
        tmp_path,
        {"target": {"trace_id": "t"}, "value": 0.1},
        {"target": {"row_hash": "h"}, "value": 0.2},
        {"target": {"source": "deep/a.atraj", "step": 3}, "value": 0.3},
    )
    assert [j.value for j in found.of_row("t", "deep/a.atraj", 3, "h")] == [0.3]
    assert [j.value for j in found.of_row("t", "deep/a.atraj", 4, "h")] == [0.2]
    assert found.unmatched == 1
    assert [j.value for j in found.of_row("t", "deep/a.atraj", None, "other")] == [0.1]
    assert found.unmatched == 0


def test_a_judge_that_contradicts_itself_is_counted(tmp_path: Path) -> None:
    target = {"target": {"trace_id": "t"}, "judge": "ann"}
    found = file_of(tmp_path, {**target, "value": 1}, {**target, "value": 0}, {**target, "judge": "bo", "value": 0.5})
    assert found.conflicts == 1


def test_several_judges() -> None:
    found = said(1.0, 0.5, 0.0, 0.9)
    assert [combined(found, Policy(combine=how)) for how in ("mean", "min", "median")] == [0.6, 0.0, 0.7]
    assert combined([], Policy()) is None


def test_thresholds_by_name_and_for_the_rest() -> None:
    policy = Policy(threshold=0.5, by_name={"safe": 0.9})
    safe, useful = said(0.95, name="safe"), said(0.4, name="useful")
    assert passes(safe, policy) is True
    assert passes([*safe, *useful], policy) is False
    assert passes(useful, Policy(threshold=0.3, by_name={"safe": 0.9})) is None
    assert passes([], Policy()) is None
    assert names([[*safe, *useful], safe]) == {"safe": 2, "useful": 1}


def test_a_preview_says_what_each_threshold_keeps() -> None:
    kept = preview([0.0, 0.35, 1.0, None])
    assert (kept["0.0"], kept["0.3"], kept["0.4"], kept["1.0"]) == (3, 2, 1, 1)


def test_a_request_shows_the_context_and_names_no_model() -> None:
    line = json.loads(request("h", [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]))
    assert (line["custom_id"], line["method"], line["url"]) == ("h", "POST", "/v1/chat/completions")
    assert line["body"]["messages"][1]["content"] == "[user]\nq\n\n[turn to rate]\na"
    assert "model" not in line["body"]
