"""The class of every row of a published SFT set, for the mix.

By depth the text of every row is read and a classifier asked: of many rows in a process of its own, which loads what
asks it (60 MB) and ends with it. What decides over all rows holds classes, not libraries.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import orjson

from trace_flywheel.curation.supervised_tokens import supervised_tokens
from trace_flywheel.flow.depth.rows import SPELLING, UNCERTAIN, Classifier, FileRow
from trace_flywheel.flow.depth.score import Depth, How, depths
from trace_flywheel.flow.workers import Crash, run_alone
from trace_flywheel.lake.dataset import Version, lines
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.settings import Mix

BATCH, BATCH_BYTES = 2_000, 1_000_000
"""Prompts that are labelled at once, and bytes of rows: as Python's objects those take six times as much."""
MANY = 1_000
"""Rows from which on a process of its own pays: it takes a tenth of a second to start, and what it loads and holds, 100
MB, is not held by the one that decides."""


class Classes(msgspec.Struct):
    """Of every row, in order, id, class and supervised tokens."""

    row_ids: list[str] = []
    labels: list[str] = []
    sizes: "array[int]" = msgspec.field(default_factory=lambda: array("q"))
    disagreements: Counter[str] = msgspec.field(default_factory=Counter)
    """Of classifier and trajectory, where both have an opinion: `classifier/trajectory`."""
    unsure: dict[str, dict[str, Any]] = {}
    """Guess and confidence of uncertain rows, by row id."""

    def add(self, row: FileRow, label: str) -> str:
        """Gives the row's id."""
        self.row_ids.append(row.value["row_id"])
        self.labels.append(label)
        self.sizes.append(supervised_tokens(row.value["messages"]))
        return self.row_ids[-1]


def by_column(version: Version, values: Mapping[str, str]) -> Classes:
    """`values` by row id."""
    made = Classes()
    for row in _rows(version):
        made.add(row, values[row.value["row_id"]])
    return made


def by_depth(version: Version, model: Classifier, mix: Mix) -> Classes:
    """As the classifier and the work say. Raises `FlywheelError` where the process that asks died."""
    if version.rows < MANY:
        return _by_depth(model, (version, mix))
    found = run_alone(_by_depth, model, (version, mix))
    if isinstance(found, Crash):
        raise FlywheelError(found.reason)
    return found


def _by_depth(model: Classifier, task: tuple[Version, Mix]) -> Classes:
    version, mix = task
    how, made = How(turn="first", depth_from=mix.depth_from), Classes()
    for batch in _batches(_rows(version)):
        for row, depth in zip(batch, depths(batch, model, how), strict=True):
            label = _label(depth, mix)
            row_id = made.add(row, label)
            if depth.trajectory and depth.classifier and depth.trajectory != depth.classifier:
                made.disagreements[f"{SPELLING[depth.classifier]}/{SPELLING[depth.trajectory]}"] += 1
            if label == UNCERTAIN:
                sure = depth.confidence and round(depth.confidence, 4)
                made.unsure[row_id] = {"guess": depth.label, "confidence": sure}
    return made


def _label(depth: Depth, mix: Mix) -> str:
    sure = depth.confidence is None or depth.confidence >= mix.min_confidence
    label = depth.label if depth.label is not None and sure else UNCERTAIN
    return "other" if label == UNCERTAIN and mix.uncertain == "other" else label


def _rows(version: Version) -> Iterator[FileRow]:
    for number, line in enumerate(lines(version), 1):
        yield FileRow(number, line, orjson.loads(line))


def _batches(rows: Iterator[FileRow]) -> Iterator[list[FileRow]]:
    batch: list[FileRow] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row.data)
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
