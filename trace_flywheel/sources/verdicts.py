"""Files of verdicts, one JSON object a line: `{trace_id, run_id?, verdict, reward?, grader, grader_version?}`.

The way back of what went to `needs_grading.jsonl`, and of a re-grade. Nothing is guessed: a line without a grader, with
a verdict in a spelling that is not mapped, or with a reward that is no finite number is a Drop with its number.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.grading import VerdictEntry
from trace_flywheel.records.rollout import Verdict
from trace_flywheel.sources.grades import reward_of, verdict_of
from trace_flywheel.sources.jsonl import Fault, read_lines

MAX_LINE_BYTES = 1_000_000


def read_verdicts(path: Path, verdict_map: Mapping[str, Verdict]) -> Iterator[VerdictEntry | Drop]:
    """The verdicts of a JSON Lines file, in its order."""
    for line in read_lines(path, path.parent, MAX_LINE_BYTES):
        if isinstance(line, Fault):
            yield Drop(Stage.READ, line.reason, line.evidence(), path=path.name)
            continue
        row = line.value if isinstance(line.value, dict) else {}
        fault = _fault(row, verdict_map)
        if fault is not None:
            yield Drop(Stage.READ, "unknown_shape", {"line": line.number, "text": fault}, path=path.name)
            continue
        verdict, _ = verdict_of(row["verdict"], verdict_map)
        assert verdict is not None
        reward, _ = reward_of(row.get("reward"))
        yield VerdictEntry(
            row["trace_id"],
            verdict,
            row["grader"],
            _text(row.get("grader_version")),
            reward,
            _text(row.get("run_id")),
            path.name,
            line.number,
        )


def _fault(row: dict[str, Any], verdict_map: Mapping[str, Verdict]) -> str | None:
    if not _text(row.get("trace_id")) or not _text(row.get("grader")):
        return "a verdict is an object with trace_id, verdict and grader, all text"
    if verdict_of(row.get("verdict"), verdict_map)[0] is None:
        return "a verdict is pass or fail, or a spelling in grading.verdict_map"
    if reward_of(row.get("reward"))[1] is not None:
        return "a reward is a finite number"
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
