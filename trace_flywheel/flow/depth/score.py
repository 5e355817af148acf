"""Depth labels onto the rows of a file, and the rows that a human should label next.

Each row gains `reasoning_depth`, `reasoning_depth_confidence` and `reasoning_depth_source`. A row that has no prompt is
counted and named; by default it fails the whole file, so that nothing is lost in silence. Below the least confidence
the label is `uncertain` and the guess stands beside it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec
import orjson

from trace_flywheel.curation.trajectory_depth import Evidence, evidence
from trace_flywheel.flow.atomic import replaced
from trace_flywheel.flow.depth.rows import (
    SPELLING,
    UNCERTAIN,
    Classifier,
    FileRow,
    Turn,
    conversation_of,
    prompt_of,
    rows_of,
)
from trace_flywheel.records.canonical import folded
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.redaction.redact import Redactor

BATCH = 2_000
NAMED = 10
"""Line numbers that a message names."""
From = Literal["classifier", "trajectory", "both"]
Unscorable = Literal["fail", "drop", "keep"]


class How(msgspec.Struct, frozen=True):
    """How rows are scored."""

    field: str = "messages"
    turn: Turn = "last"
    depth_from: From = "classifier"
    min_confidence: float = 0.5
    unscorable: Unscorable = "fail"


class Scored(msgspec.Struct):
    """What the scoring did."""

    rows: int = 0
    written: int = 0
    labels: dict[str, int] = msgspec.field(default_factory=dict)
    """Rows written, by label as in the file."""
    unscorable: list[int] = msgspec.field(default_factory=list)
    """Line numbers."""
    disagreements: dict[str, int] = msgspec.field(default_factory=dict)
    """Of classifier and trajectory, where both have an opinion: `classifier/trajectory`."""

    def as_dict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


class Depth(msgspec.Struct, frozen=True):
    """The answer for one row; `label` None where there is nothing to score."""

    label: str | None
    confidence: float | None
    source: str
    trajectory: str | None = None
    classifier: str | None = None
    evidence: Evidence | None = None
    """What the work shows, where it was looked at."""


def score(path: Path, out: Path, model: Classifier, how: How, clean: Redactor | None = None) -> Scored:
    """Write the rows of `path` with their labels to `out`. Raises `FlywheelError` with nothing written for a line that
    is no row, and under `unscorable = fail` for rows without a prompt or evidence."""
    report = Scored()
    counts: Counter[str] = Counter()
    apart: Counter[str] = Counter()
    with replaced(out) as file:
        for row, depth in scored_rows(path, model, how, clean):
            report.rows += 1
            if depth.trajectory and depth.classifier and depth.trajectory != depth.classifier:
                apart[f"{SPELLING[depth.classifier]}/{SPELLING[depth.trajectory]}"] += 1
            if depth.label is None:
                report.unscorable.append(row.number)
                if how.unscorable != "keep":
                    continue
            labelled = _labelled(row.value, depth, how.min_confidence)
            counts[labelled["reasoning_depth"] or "none"] += 1
            report.written += 1
            file.write(orjson.dumps(labelled) + b"\n")
        report.labels = dict(sorted(counts.items()))
        report.disagreements = dict(sorted(apart.items()))
        _check(path, report, how)
    return report


def _check(path: Path, report: Scored, how: How) -> None:
    if how.unscorable == "fail" and report.unscorable:
        named = ", ".join(map(str, report.unscorable[:NAMED])) + (", …" if len(report.unscorable) > NAMED else "")
        wanted = "a user turn in messages, or a prompt" if how.field == "messages" else f"a text in {how.field!r}"
        raise FlywheelError(
            f"{path}: {len(report.unscorable)} of {report.rows} rows cannot be scored (lines {named}): a row needs "
            f"{wanted}; name another --field, or say --unscorable drop or keep. Nothing written"
        )


def scored_rows(
    path: Path, model: Classifier, how: How, clean: Redactor | None = None
) -> Iterator[tuple[FileRow, Depth]]:
    """Each row with its depth, in order, redacted by `clean` before it is scored."""
    rows = rows_of(path, clean)
    while batch := list(islice(rows, BATCH)):
        yield from zip(batch, depths(batch, model, how), strict=True)


def depths(batch: Sequence[FileRow], model: Classifier, how: How) -> Iterator[Depth]:
    """The depth of each row of a batch."""
    prompts = [prompt_of(row.value, how.field, how.turn) for row in batch]
    asked = [i for i, prompt in enumerate(prompts) if prompt and how.depth_from != "trajectory"]
    guesses: dict[int, tuple[str, float]] = {}
    if asked:
        labels, confidences = model.label([prompts[i] for i in asked])
        guesses = dict(zip(asked, zip(labels, map(float, confidences), strict=True), strict=True))
    for i, row in enumerate(batch):
        if how.depth_from == "classifier":
            yield _decided(guesses.get(i), None)
        else:
            shown = evidence(conversation_of(row.value))
            yield msgspec.structs.replace(_decided(guesses.get(i), shown.label), evidence=shown)


def _decided(guess: tuple[str, float] | None, shown: str | None) -> Depth:
    """What the work took beats what the prompt looks like; rivals to be weighed are a comparison however it went."""
    if guess is None:
        return Depth(shown, None, "trajectory", shown)
    label, confidence = guess
    if shown is None or shown == label:
        return Depth(label, confidence, "classifier" if shown is None else "both", shown, label)
    if label == "comparison":
        return Depth(label, confidence, "classifier", shown, label)
    return Depth(shown, None, "trajectory", shown, label)


def _labelled(row: dict[str, Any], depth: Depth, min_confidence: float) -> dict[str, Any]:
    label = SPELLING[depth.label] if depth.label is not None else None
    unsure = depth.confidence is not None and depth.confidence < min_confidence
    labelled = {
        **row,
        "reasoning_depth": UNCERTAIN if unsure else label,
        "reasoning_depth_confidence": None if depth.confidence is None else round(depth.confidence, 6),
        "reasoning_depth_source": depth.source if label is not None else None,
    }
    if depth.evidence is not None:
        labelled["reasoning_depth_evidence"] = msgspec.structs.asdict(depth.evidence)
    return labelled | {"reasoning_depth_guess": label} if unsure else labelled


def to_label(path: Path, out: Path, model: Classifier, how: How, count: int, clean: Redactor | None = None) -> int:
    """Write the `count` least certain prompts of a file for labelling, each once: `{prompt, label: null, guess,
    confidence}`, least certain first. Returns how many there were."""
    found: dict[str, tuple[float, str, str]] = {}
    for row, depth in scored_rows(path, model, how, clean):
        if depth.classifier is None or depth.confidence is None:
            continue
        prompt = prompt_of(row.value, how.field, how.turn)
        found.setdefault(folded(prompt), (depth.confidence, prompt, depth.classifier))
    least = sorted(found.values())[:count]
    with replaced(out) as file:
        for confidence, prompt, guess in least:
            line = {"prompt": prompt, "label": None, "guess": SPELLING[guess], "confidence": round(confidence, 6)}
            file.write(orjson.dumps(line) + b"\n")
    return len(least)
