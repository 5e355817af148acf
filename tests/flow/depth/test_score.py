"""Labels onto rows: from the prompt, from the work, from both; nothing unscorable is lost in silence."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.recordings import rows_of
from trace_flywheel.flow.depth.score import How, Scored, score, to_label
from trace_flywheel.records.errors import FlywheelError


class Words:
    """A classifier that a test can read: the prompt's first word is the class, its second the confidence."""

    def label(self, prompts: Sequence[str]) -> tuple[list[str], np.ndarray]:
        labels = [prompt.split()[0] for prompt in prompts]
        return labels, np.array([float(prompt.split()[1]) for prompt in prompts])


def chat(prompt: str, *between: dict[str, Any]) -> dict[str, Any]:
    user, answer = {"role": "user", "content": prompt}, {"role": "assistant", "content": "done"}
    return {"messages": [user, *between, answer], "task": "t"}


def called(tool: str, result: str, **arguments: str) -> tuple[dict[str, Any], dict[str, Any]]:
    call = {"name": tool, "arguments_json": json.dumps(arguments)}
    return {"role": "assistant", "content": "{}", "tool_call": call}, {"role": "tool", "content": result}


TWO_STEPS = (*called("find", "report-7.txt"), *called("read", "ok", path="report-7.txt"))


def scored(tmp_path: Path, *rows: dict[str, Any], **how: Any) -> tuple[Scored, list[dict[str, Any]]]:
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = score(tmp_path / "in.jsonl", tmp_path / "out.jsonl", Words(), How(**how))
    return report, rows_of(tmp_path / "out.jsonl")


def test_a_row_keeps_its_keys_and_gains_three(tmp_path: Path) -> None:
    report, (row,) = scored(tmp_path, chat("multi 0.9") | {"reasoning_depth": "stale"})
    assert row == chat("multi 0.9") | {
        "reasoning_depth": "multi-hop",
        "reasoning_depth_confidence": 0.9,
        "reasoning_depth_source": "classifier",
    }
    assert (report.rows, report.written, report.labels) == (1, 1, {"multi-hop": 1})


def test_below_the_least_confidence_a_row_is_uncertain_with_its_guess(tmp_path: Path) -> None:
    report, (sure, unsure) = scored(tmp_path, chat("single 0.5"), chat("other 0.49"))
    assert (sure["reasoning_depth"], unsure["reasoning_depth"]) == ("single-hop", "uncertain")
    assert unsure["reasoning_depth_guess"] == "other"
    assert report.labels == {"single-hop": 1, "uncertain": 1}
    assert scored(tmp_path, chat("other 0.49"), min_confidence=0.0)[0].labels == {"other": 1}


def test_rows_without_a_prompt_fail_by_name_and_write_nothing(tmp_path: Path) -> None:
    blank = {"messages": [{"role": "assistant", "content": "hi"}]}
    with pytest.raises(FlywheelError, match=r"2 of 3 rows cannot be scored \(lines 1, 3\).*Nothing written"):
        scored(tmp_path, blank, chat("single 1"), blank)
    assert not (tmp_path / "out.jsonl").exists()
    report, rows = scored(tmp_path, blank, chat("single 1"), unscorable="drop")
    assert (report.unscorable, report.written, len(rows)) == ([1], 1, 1)
    report, rows = scored(tmp_path, blank, chat("single 1"), unscorable="keep")
    assert [row["reasoning_depth"] for row in rows] == [None, "single-hop"]
    assert report.labels == {"none": 1, "single-hop": 1}


def test_a_field_that_no_row_has_is_told(tmp_path: Path) -> None:
    with pytest.raises(FlywheelError, match="a text in 'user'"):
        scored(tmp_path, chat("single 1"), field="user")


def test_the_work_beats_the_look_except_for_rivals(tmp_path: Path) -> None:
    rows = [chat(f"{label} 0.8", *TWO_STEPS) for label in ("single", "comparison", "multi")]
    report, found = scored(tmp_path, *rows, chat("other 0.8"), depth_from="both")
    assert [(row["reasoning_depth"], row["reasoning_depth_source"]) for row in found] == [
        ("multi-hop", "trajectory"),
        ("comparison", "classifier"),
        ("multi-hop", "both"),
        ("other", "classifier"),
    ]
    assert report.disagreements == {"comparison/multi-hop": 1, "single-hop/multi-hop": 1}


def test_the_trajectory_alone_needs_evidence(tmp_path: Path) -> None:
    report, (row,) = scored(
        tmp_path, chat("single 1", *TWO_STEPS), chat("single 1"), depth_from="trajectory", unscorable="drop"
    )
    assert (row["reasoning_depth"], row["reasoning_depth_confidence"]) == ("multi-hop", None)
    assert row["reasoning_depth_evidence"] == {"calls": 2, "dependent_calls": 1, "tools": 2, "turns": 3}
    assert report.unscorable == [2]


def test_the_least_certain_prompts_once_each(tmp_path: Path) -> None:
    rows = [chat("single 0.9"), chat("multi 0.3"), chat("multi  0.3"), chat("other 0.5")]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert to_label(tmp_path / "in.jsonl", tmp_path / "out.jsonl", Words(), How(), 2) == 2
    assert rows_of(tmp_path / "out.jsonl") == [
        {"prompt": "multi 0.3", "label": None, "guess": "multi-hop", "confidence": 0.3},
        {"prompt": "other 0.5", "label": None, "guess": "other", "confidence": 0.5},
    ]
