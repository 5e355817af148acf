import json
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.records.fate import Drop
from trace_flywheel.records.golden import CorrectionEntry
from trace_flywheel.records.rollout import Correction
from trace_flywheel.sources.corrections import read_corrections


def read(tmp_path: Path, *rows: Any) -> list[CorrectionEntry | Drop]:
    path = tmp_path / "fixes.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(read_corrections(path))


def test_entries_are_addressed_by_trace_and_run(tmp_path: Path) -> None:
    bare, full = read(
        tmp_path,
        {"trace_id": "t", "content": "c"},
        {"trace_id": "t", "run_id": "r", "content": "c", "corrected_by": "ann", "turn": 0},
    )
    assert bare == CorrectionEntry("t", Correction("c"), None, "fixes.jsonl", 1)
    assert full == CorrectionEntry("t", Correction("c", "ann", 0), "r", "fixes.jsonl", 2)


@pytest.mark.parametrize(
    "row",
    [
        {"content": "c"},
        {"trace_id": "t"},
        {"trace_id": "t", "content": "  "},
        {"trace_id": "t", "content": ["c"]},
        {"trace_id": "t", "content": "c", "turn": -1},
        {"trace_id": "t", "content": "c", "turn": True},
        {"trace_id": 5, "content": "c"},
        "text",
    ],
)
def test_what_is_no_correction_is_named_with_its_line(tmp_path: Path, row: Any) -> None:
    (drop,) = read(tmp_path, row)
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.evidence["line"], drop.path) == ("unknown_shape", 1, "fixes.jsonl")
