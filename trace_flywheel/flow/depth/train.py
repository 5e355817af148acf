"""Training the depth classifier from labelled files, and the gate that it must pass.

Labels come as `reasoning_depth`, `label` or `depth`, in either spelling; a row whose label is null is still to be
labelled and waits. Anything else that is no labelled prompt fails with its line.
"""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from trace_flywheel.curation import tgfr
from trace_flywheel.curation.depth import (
    LABELS,
    Backend,
    DepthModel,
    DepthReport,
    Labelled,
    cross_validate,
    report_of,
    seed_report,
    seed_set,
    short_label,
    train,
    training_set_hash,
)
from trace_flywheel.curation.depth_families import near_any
from trace_flywheel.flow.atomic import replaced
from trace_flywheel.flow.depth.rows import Classifier, rows_of
from trace_flywheel.records.canonical import folded
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.settings import Depth

NAMED, NAMED_CHARS = 5, 60
"""How many prompts a report names, and how much of each."""
_LABEL_KEYS = ("reasoning_depth", "label", "depth")


class Read(msgspec.Struct, frozen=True):
    labelled: list[Labelled]
    waiting: int
    """Rows that nobody has labelled yet."""


def read_labels(path: Path) -> Read:
    """The labelled prompts of a file, in its order."""
    labelled: list[Labelled] = []
    waiting = 0
    for row in rows_of(path):
        prompt = next((t for k in ("prompt", "text") if isinstance(t := row.value.get(k), str) and t.strip()), None)
        key = next((k for k in _LABEL_KEYS if k in row.value), None)
        if prompt is None or key is None:
            raise FlywheelError(f"{path}:{row.number}: a labelled row has prompt and label, both text")
        if row.value[key] is None:
            waiting += 1
            continue
        try:
            labelled.append(Labelled(prompt, short_label(str(row.value[key]))))
        except ValueError as error:
            raise FlywheelError(f"{path}:{row.number}: {error}") from None
    return Read(labelled, waiting)


def labelled_of(depth: Depth) -> tuple[tuple[Labelled, ...], tuple[Labelled, ...]]:
    """What a classifier learns from and what it is judged by, as its settings say."""
    own = [row for path in depth.labels for row in read_labels(path).labelled]
    held_out = [row for path in depth.held_out for row in read_labels(path).labelled]
    return (*own, *(seed_set() if depth.seed_set else ())), tuple(held_out)


def trained(depth: Depth) -> DepthModel:
    """The classifier of these settings, with its report under `info["held_out"]`. Raises `FlywheelError` for labels
    that cannot be learned from and below `depth.min_f1`."""
    rows, held_out = labelled_of(depth)
    try:
        as_shipped = depth.seed_set and not depth.labels and depth.backend == "ngrams"
        model = (DepthModel.of_seed_set() if as_shipped else None) or train(rows, depth.backend)
        if held_out:
            judged, by, more = judge(model, held_out), "held-out files", near_training(held_out, rows)
        else:
            judged = (seed_report() if as_shipped else None) or cross_validate(rows, depth.backend)
            by, more = "five folds", {}
    except ValueError as error:
        raise FlywheelError(f"depth.labels: cannot train: {error}") from None
    if judged.macro_f1 < depth.min_f1:
        raise FlywheelError(
            f"depth classifier: macro-F1 {judged.macro_f1:.3f} by {by} is below depth.min_f1 {depth.min_f1:g}; add "
            f"labelled prompts of {_worst(judged)}. The classifier before stays"
        )
    model.info["held_out"] = {"by": by, **told(judged), **more}
    return model


def train_default(
    files: Sequence[Path],
    seed: bool,
    held_out: Path | None,
    min_f1: float,
    out: Path,
    backend: Backend = "ngrams",
) -> dict[str, Any]:
    """Train on the files (and the seed set), judge on the held-out file or by five-fold cross-validation, and write
    `depth.npz` and `depth.json` to the folder `out`. Raises `FlywheelError`, nothing written, below `min_f1`."""
    read = [read_labels(path) for path in files]
    rows = [row for one in read for row in one.labelled] + list(seed_set() if seed else ())
    try:
        model = train(rows, backend)
        if held_out is None:
            judged, by, more = cross_validate(rows, backend), "five-fold cross-validation", {}
        else:
            apart = read_labels(held_out).labelled
            judged, by, more = judge(model, apart), "held-out file", near_training(apart, rows)
    except ValueError as error:
        raise FlywheelError(f"cannot train: {error}") from None
    _gate(judged, min_f1, by)
    model.info["held_out"] = {"by": by, **told(judged), **more}
    _save(model, out)
    return {**model.info, "waiting": sum(one.waiting for one in read), "out": str(out)}


def _save(model: DepthModel, out: Path) -> None:
    """Both files appear complete, or the old ones stay."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".new-") as fresh:
        model.save(Path(fresh))
        for path in sorted(Path(fresh).iterdir()):
            path.replace(out / path.name)


def train_tgfr(
    files: Sequence[Path], options: tgfr.Options, held_out: Path | None, min_f1: float, out: Path
) -> dict[str, Any]:
    """Train the original's classifier on the files, in their order, and write its `.tgfr`."""
    rows = [row for path in files for row in read_labels(path).labelled]
    if not rows:
        raise FlywheelError("no labelled row: name at least one file of them")
    model, epochs = tgfr.train([row.prompt for row in rows], [row.label for row in rows], options)
    if not np.isfinite(model.weights).all() or not np.isfinite(model.bias).all():
        raise FlywheelError("the weights grew beyond all numbers: give a smaller --lr. Nothing written")
    answer: dict[str, Any] = {"rows": len(rows), "training_set": training_set_hash(rows), "out": str(out)}
    answer["epochs"] = [{"loss": round(e.loss, 4), "accuracy": round(e.accuracy, 4)} for e in epochs]
    if held_out is not None:
        apart = read_labels(held_out).labelled
        judged = judge(model, apart)
        _gate(judged, min_f1, "held-out file")
        answer["held_out"] = {"by": "held-out file", **told(judged), **near_training(apart, rows)}
    with replaced(out) as file:
        file.write(model.encoded())
    return answer


def near_training(held_out: Sequence[Labelled], rows: Sequence[Labelled]) -> dict[str, Any]:
    """How many held-out prompts are near one that was trained on, and how the first of them begin: by them a model
    looks better than it is."""
    near = near_any([folded(row.prompt) for row in held_out], [folded(row.prompt) for row in rows])
    mask = redactor("standard").mask
    return {"near_training": len(near), "near_prompts": [mask(held_out[i].prompt)[:NAMED_CHARS] for i in near[:NAMED]]}


def judge(model: Classifier, rows: Sequence[Labelled]) -> DepthReport:
    """A model's labels against given ones."""
    predicted, _ = model.label([row.prompt for row in rows])
    return report_of([row.label for row in rows], predicted)


def told(report: DepthReport) -> dict[str, Any]:
    """The report as plain data: accuracy, macro-F1, confusion, and per class precision, recall, F1 and support."""
    return {
        "accuracy": round(report.accuracy, 4),
        "macro_f1": round(report.macro_f1, 4),
        "confusion": report.confusion,
        "classes": {name: _scores(report.confusion, name) for name in LABELS},
    }


def _scores(confusion: dict[str, dict[str, int]], name: str) -> dict[str, float]:
    hit, given = confusion[name][name], sum(confusion[name].values())
    guessed = sum(row[name] for row in confusion.values())
    return {
        "precision": _ratio(hit, guessed),
        "recall": _ratio(hit, given),
        "f1": _ratio(2 * hit, given + guessed),
        "n": given,
    }


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def _gate(report: DepthReport, min_f1: float, by: str) -> None:
    if report.macro_f1 < min_f1:
        raise FlywheelError(
            f"macro-F1 {report.macro_f1:.3f} by {by} is below --min-f1 {min_f1:g}; add labelled prompts of "
            f"{_worst(report)}. Nothing written"
        )


def _worst(report: DepthReport) -> str:
    scores: Iterable[tuple[float, str]] = ((_scores(report.confusion, name)["f1"], name) for name in LABELS)
    return min(scores)[1]
