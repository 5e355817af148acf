"""Files of human corrections, one JSON object a line: `{trace_id, run_id?, content, corrected_by?, turn?}`.

PostTrainLLM logs *events* instead, `{id, input?, original, corrected, source?, ...}`: what was said and what should
have been, without the recording's name. A line that is neither is a Drop with its number: expert work is never skipped
in silence.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.golden import CorrectionEntry
from trace_flywheel.records.rollout import Correction
from trace_flywheel.sources.jsonl import Fault, read_lines

MAX_LINE_BYTES = 64_000_000


class CorrectionEvent(msgspec.Struct, frozen=True):
    """An answer, what a human made of it, and where known the prompt."""

    id: str
    original: str
    corrected: str
    input: str | None
    source: str
    line: int


def read_corrections(path: Path) -> Iterator[CorrectionEntry | Drop]:
    """The corrections of a JSON Lines file that name their trace; any other line is a Drop."""
    for found in read_corrections_and_events(path):
        yield _unknown(path, found.line) if isinstance(found, CorrectionEvent) else found


def read_corrections_and_events(path: Path) -> Iterator[CorrectionEntry | CorrectionEvent | Drop]:
    """All that a file of corrections may hold."""
    for line in read_lines(path, path.parent, MAX_LINE_BYTES):
        if isinstance(line, Fault):
            yield Drop(Stage.READ, line.reason, line.evidence(), path=path.name)
            continue
        row = line.value if isinstance(line.value, dict) else {}
        trace_id, run_id = row.get("trace_id"), row.get("run_id")
        correction = correction_of(row)
        if (event := _event_of(row, line.number)) is not None:
            yield event
        elif correction is None or not isinstance(trace_id, str) or not trace_id:
            yield _unknown(path, line.number)
        else:
            yield CorrectionEntry(
                trace_id, correction, run_id if isinstance(run_id, str) else None, path.name, line.number
            )


def _unknown(path: Path, number: int) -> Drop:
    evidence = {"line": number, "text": "a correction is an object with trace_id and content, both text"}
    return Drop(Stage.READ, "unknown_shape", evidence, path=path.name)


def _event_of(row: dict[str, Any], number: int) -> CorrectionEvent | None:
    original, corrected = row.get("original"), row.get("corrected")
    if not isinstance(original, str) or not isinstance(corrected, str) or not corrected.strip():
        return None
    asked, name, source = row.get("input"), row.get("id"), row.get("source")
    return CorrectionEvent(
        name if isinstance(name, str) and name else f"correction-{number}",
        original,
        corrected,
        asked if isinstance(asked, str) and asked.strip() else None,
        source if isinstance(source, str) else "",
        number,
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
