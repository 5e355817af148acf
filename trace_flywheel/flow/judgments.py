"""Scores that a judge gave elsewhere, read from a file: the pipeline itself never calls a model.

Two kinds of lines, which may stand in one file. A *judgment*: `{target: {trace_id} | {source, step} | {row_hash},
name?, value, scale?: [lo, hi] | label, judge?}`. An answer of a batch run to our own requests: `{custom_id, response}`,
whose text is the JSON that the request asks for. Values become 0..1 (a judgment without a scale is in 0..1 already).
"""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import orjson

from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.sources.jsonl import Fault, read_lines

MAX_LINE_BYTES = 64_000_000
RATING = (1.0, 10.0)
"""Scale that our requests ask for."""
LABELS = {"pass": 1.0, "good": 1.0, "yes": 1.0, "true": 1.0, "fail": 0.0, "bad": 0.0, "no": 0.0, "false": 0.0}
Combine = Literal["mean", "min", "median"]
Missing = Literal["keep", "drop", "fail"]
_COMBINED: dict[Combine, Callable[[list[float]], float]] = {
    "mean": statistics.fmean,
    "min": min,
    "median": statistics.median,
}


class Judgment(msgspec.Struct, frozen=True):
    line: int
    name: str
    judge: str
    value: float


class Policy(msgspec.Struct, frozen=True):
    """What is done with scores. A row stays when each threshold that concerns it is reached."""

    threshold: float = 0.6
    by_name: dict[str, float] = msgspec.field(default_factory=dict)
    combine: Combine = "mean"
    missing: Missing = "fail"


class Judgments:
    """The judgments of a file, by what they are about; `unmatched` are those that no row asked for."""

    def __init__(self, path: Path) -> None:
        self._of: dict[tuple[Any, ...], list[Judgment]] = {}
        self._lines = 0
        self._matched: set[int] = set()
        for line in read_lines(path, path.parent, MAX_LINE_BYTES):
            if isinstance(line, Fault):
                raise FlywheelError(f"{path}:{line.line or 1}: {line.reason}: {line.text}")
            self._lines += 1
            try:
                target, judgment = _read(line.number, line.value)
            except ValueError as error:
                raise FlywheelError(f"{path}:{line.number}: {error}") from None
            self._of.setdefault(target, []).append(judgment)

    def of_row(self, rollout_id: str, source: str, step: int | None, row_hash: str) -> list[Judgment]:
        """About the row itself (by place, then by hash), else about its rollout."""
        file = source.rpartition("/")[2]
        for target in (("step", source, step), ("step", file, step), ("row", row_hash), ("trace", rollout_id)):
            if found := self._of.get(target):
                self._matched.update(judgment.line for judgment in found)
                return found
        return []

    @property
    def unmatched(self) -> int:
        return self._lines - len(self._matched)

    @property
    def conflicts(self) -> int:
        """Targets that one judge gave two values of one name."""
        count = 0
        for found in self._of.values():
            values: dict[tuple[str, str], set[float]] = {}
            for judgment in found:
                values.setdefault((judgment.name, judgment.judge), set()).add(judgment.value)
            count += any(len(v) > 1 for v in values.values())
        return count


def combined(found: Sequence[Judgment], policy: Policy) -> float | None:
    """One score of several judgments; None of none."""
    return float(_COMBINED[policy.combine]([j.value for j in found])) if found else None


def passes(found: Sequence[Judgment], policy: Policy) -> bool | None:
    """Whether each threshold is reached; None where a judgment that is needed is missing."""
    answers: list[bool | None] = []
    for name, threshold in policy.by_name.items():
        score = combined([j for j in found if j.name == name], policy)
        answers.append(None if score is None else score >= threshold)
    if not policy.by_name or any(j.name not in policy.by_name for j in found):
        score = combined([j for j in found if j.name not in policy.by_name], policy)
        answers.append(None if score is None else score >= policy.threshold)
    return False if False in answers else None if None in answers else True


def preview(scores: Sequence[float | None]) -> dict[str, int]:
    """How many rows each threshold of 0.0, 0.1 … 1.0 would keep."""
    return {f"{step / 10:.1f}": sum(s is not None and s >= step / 10 for s in scores) for step in range(11)}


def request(row_hash: str, messages: Sequence[dict[str, Any]]) -> bytes:
    """A line of a batch request file; the model is the runner's to name."""
    *context, target = messages
    shown = "\n\n".join(f"[{m['role']}]\n{m['content']}" for m in context)
    body = {
        "messages": [
            {"role": "system", "content": _INSTRUCTION},
            {"role": "user", "content": f"{shown}\n\n[turn to rate]\n{target['content']}"},
        ],
        "response_format": {"type": "json_object"},
        "temperature": 0,
    }
    line = {"custom_id": row_hash, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return orjson.dumps(line) + b"\n"


_INSTRUCTION = (
    "Rate the last assistant turn of this conversation: is it correct, grounded in what the tools returned, and what "
    'the user asked for? Answer with one JSON object: {"rating": <1 to 10>, "rationale": "<one sentence>"}.'
)


def _read(number: int, value: Any) -> tuple[tuple[Any, ...], Judgment]:
    if not isinstance(value, dict):
        raise ValueError("a judgment is an object")
    if "custom_id" in value:
        return ("row", str(value["custom_id"])), Judgment(number, "rating", "batch", _rating(value))
    name, judge = value.get("name", "score"), value.get("judge", "")
    if not isinstance(name, str) or not isinstance(judge, str):
        raise ValueError("name and judge are text")
    return _target(value.get("target")), Judgment(number, name, judge, _scaled(value))


def _target(value: Any) -> tuple[Any, ...]:
    target = value if isinstance(value, dict) else {}
    if isinstance(row := target.get("row_hash"), str):
        return "row", row
    source, step = target.get("source"), target.get("step")
    if isinstance(source, str) and isinstance(step, int) and not isinstance(step, bool):
        return "step", source, step
    if isinstance(trace := target.get("trace_id"), str):
        return "trace", trace
    raise ValueError("target holds trace_id, or source and step, or row_hash")


def _scaled(value: dict[str, Any]) -> float:
    given = value.get("label", value.get("value"))
    if isinstance(given, str) and (known := LABELS.get(given.strip().lower())) is not None:
        return known
    scale = value.get("scale", (0, 1))
    if not (isinstance(scale, list | tuple) and len(scale) == 2 and all(_finite(end) for end in scale)):
        raise ValueError("scale is [lowest, highest]")
    return _unit(1.0 if given is True else 0.0 if given is False else given, float(scale[0]), float(scale[1]))


def _rating(value: dict[str, Any]) -> float:
    try:
        text = value["response"]["body"]["choices"][0]["message"]["content"]
        answer = orjson.loads(text)
        rating = answer["rating"]
    except (KeyError, IndexError, TypeError, orjson.JSONDecodeError):
        raise ValueError("a batch answer holds a message whose text is JSON with a rating") from None
    return _unit(rating, *RATING)


def _unit(value: Any, low: float, high: float) -> float:
    if not _finite(value) or not low <= value <= high or low == high:
        raise ValueError(f"value {value!r} is no number from {low:g} to {high:g}")
    return (float(value) - low) / (high - low)


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def names(found: Sequence[Sequence[Judgment]]) -> dict[str, int]:
    """Rows judged, by the judgments' name."""
    counts = Counter(name for one in found for name in {j.name for j in one})
    return dict(sorted(counts.items()))
