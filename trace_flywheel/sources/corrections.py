"""Files of human corrections, one JSON object a line: `{trace_id, run_id?, content, corrected_by?, turn?}`.

A line that is none is a Drop with its number: expert work is never skipped in silence.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.golden import CorrectionEntry
from trace_flywheel.records.rollout import Correction
from trace_flywheel.sources.jsonl import Fault, read_lines

MAX_LINE_BYTES = 64_000_000


def read_corrections(path: Path) -> Iterator[CorrectionEntry | Drop]:
    """The corrections of a JSON Lines file."""
    for line in read_lines(path, path.parent, MAX_LINE_BYTES):
        if isinstance(line, Fault):
            yield Drop(Stage.READ, line.reason, line.evidence(), path=path.name)
            continue
        row = line.value if isinstance(line.value, dict) else {}
        trace_id, run_id = row.get("trace_id"), row.get("run_id")
        correction = correction_of(row)
        if correction is None or not isinstance(trace_id, str) or not trace_id:
            evidence = {"line": line.number, "text": "a correction is an object with trace_id and content, both text"}
            yield Drop(Stage.READ, "unknown_shape", evidence, path=path.name)
        else:
            yield CorrectionEntry(
                trace_id, correction, run_id if isinstance(run_id, str) else None, path.name, line.number
            )


def correction_of(value: Any) -> Correction | None:
    """A correction from its JSON object; None where it has no text or a `turn` that is no count of turns."""
    if not isinstance(value, dict) or not isinstance(content := value.get("content"), str) or not content.strip():
        return None
    turn = value.get("turn")
    if turn is not None and (not isinstance(turn, int) or isinstance(turn, bool) or turn < 0):
        return None
    by = value.get("corrected_by")
    return Correction(content, by if isinstance(by, str) else "", turn)
