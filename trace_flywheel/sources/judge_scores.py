"""Files of judge scores, one JSON object a line: `{trace_id, run_id?, name?, value, scale?: [lo, hi], judge?}`.

A score is taken to 0..1 by its own scale (0..1 where it names none), so that judges of different scales can stand side
by side. A value outside its scale is a fault: it was read with the wrong one.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.grading import JudgeEntry
from trace_flywheel.sources.jsonl import Fault, read_lines

MAX_LINE_BYTES = 1_000_000


def read_judge_scores(path: Path) -> Iterator[JudgeEntry | Drop]:
    """The scores of a JSON Lines file, in its order."""
    for line in read_lines(path, path.parent, MAX_LINE_BYTES):
        if isinstance(line, Fault):
            yield Drop(Stage.READ, line.reason, line.evidence(), path=path.name)
            continue
        entry = _entry(line.value, path.name, line.number)
        if isinstance(entry, str):
            yield Drop(Stage.READ, "unknown_shape", {"line": line.number, "text": entry}, path=path.name)
        else:
            yield entry


def _entry(row: Any, path: str, line: int) -> JudgeEntry | str:
    if not isinstance(row, dict) or not isinstance(trace_id := row.get("trace_id"), str) or not trace_id:
        return "a score is an object with trace_id, a text, and value, a number"
    name, judge, run_id = row.get("name", "score"), row.get("judge", ""), row.get("run_id")
    if not isinstance(name, str) or not isinstance(judge, str) or not (run_id is None or isinstance(run_id, str)):
        return "name, judge and run_id are texts"
    scale, value = row.get("scale", [0, 1]), row.get("value")
    if not isinstance(scale, list) or len(scale) != 2 or not all(map(_finite, scale)) or scale[0] >= scale[1]:
        return "a scale is [lowest, highest], two finite numbers"
    low, high = float(scale[0]), float(scale[1])
    if value is None or not _finite(value) or not low <= value <= high:
        return f"a value is a number from {low:g} to {high:g}"
    return JudgeEntry(trace_id, (float(value) - low) / (high - low), name, judge, run_id, path, line)


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
