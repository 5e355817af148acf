"""Depth of a prompt: what answering it takes, as one of four classes.

single: one look-up, fact or call. multi: steps of which a later one needs an earlier one's result. comparison: rivals
are weighed. other: no look-up or reasoning about the world (greeting, rewriting, creative writing, code from scratch).
A linear model (`depth_fit`) over cues and n-grams (`depth_features`) decides. Training is deterministic whatever the
order of the rows; a model is plain numbers (npz) and JSON, and says what it was trained on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from trace_flywheel.curation.depth_embedding import model_encoder, vectors
from trace_flywheel.curation.depth_families import families
from trace_flywheel.curation.depth_features import COLUMNS, FEATURES_VERSION, features
from trace_flywheel.curation.depth_fit import fit
from trace_flywheel.curation.depth_saved import arrays_of, info_of
from trace_flywheel.curation.embedding import DIMENSIONS
from trace_flywheel.curation.sparse_rows import SparseRows
from trace_flywheel.records.canonical import content_id, folded, sha256_hex

Backend = Literal["ngrams", "embedding"]
"""What a classifier sees beside the cues: n-grams, or sentence vectors too (the extra `embedding`)."""
LABELS = ("single", "multi", "comparison", "other")
_SPELLINGS = {**{name: name for name in LABELS}, "single-hop": "single", "multi-hop": "multi"}
_FOLDS = 5


class Labelled(msgspec.Struct, frozen=True, order=True):
    """A prompt and its label, short (`single`) or as in the guide (`single-hop`)."""

    prompt: str
    label: str


@dataclass(frozen=True)
class DepthReport:
    """How a model's labels agree with given ones. `confusion[true][predicted]` counts prompts."""

    accuracy: float
    macro_f1: float
    confusion: dict[str, dict[str, int]]


def short_label(label: str) -> str:
    """The class of `mix.target` for a label in either spelling; `ValueError` for any other text."""
    try:
        return _SPELLINGS[label.strip().lower()]
    except KeyError:
        raise ValueError(f"{label!r} is no depth label; known: {', '.join(_SPELLINGS)}") from None


@cache
def seed_set() -> tuple[Labelled, ...]:
    """The labelled prompts that come with the package: read once, a pass asks for them again and again."""
    return read_labelled((files("trace_flywheel.curation") / "depth_seed.jsonl").read_bytes())


def read_labelled(data: bytes) -> tuple[Labelled, ...]:
    """Labelled prompts from JSON lines `{"prompt", "label"}`; `ValueError` names the line that is none."""
    rows = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                row = msgspec.json.decode(line, type=Labelled)
                rows.append(Labelled(row.prompt, short_label(row.label)))
            except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
                raise ValueError(f"line {number}: {error}") from None
    return tuple(rows)


class DepthModel:
    """Weights of a trained classifier. `info` is what `depth.json` holds: labels, training set, versions."""

    def __init__(self, columns: np.ndarray, weights: np.ndarray, bias: np.ndarray, info: dict[str, Any]) -> None:
        self._columns, self._compact, self._bias = columns, weights, bias
        self._backend: Backend = "embedding" if "encoder" in info else "ngrams"
        self._weights = np.zeros((_width(self._backend), len(LABELS)), dtype=np.float32)
        self._weights[columns] = weights
        self.info = info

    def label(self, prompts: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """The class of each prompt and the probability that the model gives it, float64 in (0, 1]."""
        logits = _seen(prompts, self._backend).times(self._weights).astype(np.float64) + self._bias
        odds = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
        chances = odds / odds.sum(axis=1, keepdims=True)
        best = chances.argmax(axis=1)
        return [LABELS[i] for i in best], chances[np.arange(len(best)), best]

    def save(self, folder: Path) -> None:
        """Write `depth.npz` and `depth.json`. The same training set gives the same bytes."""
        np.savez(folder / "depth.npz", columns=self._columns, weights=self._compact, bias=self._bias)
        (folder / "depth.json").write_bytes(msgspec.json.format(msgspec.json.encode(self.info, order="sorted")) + b"\n")

    @classmethod
    def load(cls, folder: Path) -> "DepthModel":
        """A saved model; `ValueError` where it is none, or was made for other features than this version's or with
        another encoder, `EmbeddingError` where it needs one that is not installed."""
        info = info_of(folder / "depth.json", FEATURES_VERSION, LABELS)
        if (made_with := info.get("encoder")) is not None and made_with != model_encoder().fingerprint:
            raise ValueError(f"{folder}: made with the encoder {made_with}, here is {model_encoder().fingerprint}")
        return cls._of(folder / "depth.npz", info)

    @classmethod
    def _of(cls, weights: Path, info: dict[str, Any]) -> "DepthModel":
        backend: Backend = "embedding" if "encoder" in info else "ngrams"
        return cls(*arrays_of(weights, _width(backend), len(LABELS)), info)

    @classmethod
    def of_seed_set(cls) -> "DepthModel | None":
        """The model of the seed set as it ships; None where the set or the features changed since.

        Fitting takes two seconds and 65 MB of libraries, in every new home.
        """
        shipped = Path(str(files("trace_flywheel.curation")))
        info = msgspec.json.decode((shipped / "depth_seed_model.json").read_bytes())
        if [info["training_set"], info["features"]] != [training_set_hash(_distinct(seed_set())), FEATURES_VERSION]:
            return None
        return cls._of(shipped / "depth_seed_model.npz", info)


def _seen(prompts: Sequence[str], backend: Backend) -> SparseRows:
    """What a classifier sees: the n-grams and cues, and with `embedding` sentence vectors after them."""
    seen = features(prompts)
    return seen if backend == "ngrams" else seen.beside(SparseRows.of_dense(vectors(prompts)))


def _width(backend: Backend) -> int:
    return COLUMNS + (DIMENSIONS if backend == "embedding" else 0)


def train(labelled: Iterable[Labelled], backend: Backend = "ngrams") -> DepthModel:
    """Fit the classifier. Prompts that say the same twice count once.

    Raises `ValueError` where a prompt has two labels or a class has no prompt, `EmbeddingError` without the encoder.
    """
    rows = _distinct(labelled)
    labels = np.array([LABELS.index(row.label) for row in rows])
    columns, weights, bias = fit(_seen([row.prompt for row in rows], backend).csr(), labels, len(LABELS))
    info = {
        "labels": LABELS,
        "training_set": training_set_hash(rows),
        "rows": len(rows),
        "features": FEATURES_VERSION,
        "versions": {name: version(name) for name in ("numpy", "scikit-learn", "scipy")},
    }
    if backend == "embedding":
        info["encoder"] = model_encoder().fingerprint
    return DepthModel(columns, weights, bias, info)


def training_set_hash(labelled: Iterable[Labelled]) -> str:
    """Changes when a prompt or a label does, not with their order: when a model has to be trained again."""
    return _hash_of(tuple(labelled))


@lru_cache(maxsize=4)
def _hash_of(labelled: tuple[Labelled, ...]) -> str:
    """Remembered: of the seed set it takes ten milliseconds, and a pass asks five times."""
    return content_id([[row.prompt, row.label] for row in sorted(labelled)])


def evaluate(model: DepthModel, labelled: Sequence[Labelled]) -> DepthReport:
    """The model's labels against given ones, which it should not have been trained on."""
    predicted, _ = model.label([row.prompt for row in labelled])
    return report_of([short_label(row.label) for row in labelled], predicted)


def cross_validate(labelled: Iterable[Labelled], backend: Backend = "ngrams") -> DepthReport:
    """Every prompt labelled by a model that was trained without its fifth of the set; fifths by content hash, prompts
    near each other in one fifth."""
    rows = _distinct(labelled)
    prompts = [folded(row.prompt) for row in rows]
    fold = np.array([int(sha256_hex(name.encode())[:8], 16) % _FOLDS for name in families(prompts)])
    truth, predicted = [], []
    for held_out in range(_FOLDS):
        model = train((row for row, f in zip(rows, fold, strict=True) if f != held_out), backend)
        tested = [row for row, f in zip(rows, fold, strict=True) if f == held_out]
        truth += [row.label for row in tested]
        predicted += model.label([row.prompt for row in tested])[0]
    return report_of(truth, predicted)


def seed_report() -> DepthReport | None:
    """The cross-validation of the seed set as it ships; None where the set or the features changed since."""
    kept = msgspec.json.decode((files("trace_flywheel.curation") / "depth_seed_report.json").read_bytes())
    if kept["of"] != [training_set_hash(seed_set()), FEATURES_VERSION]:
        return None
    return report_of_confusion(kept["confusion"])


def _distinct(labelled: Iterable[Labelled]) -> list[Labelled]:
    by_text: dict[str, Labelled] = {}
    for row in sorted(Labelled(row.prompt, short_label(row.label)) for row in labelled):
        known = by_text.setdefault(folded(row.prompt), row)
        if known.label != row.label:
            names = " and ".join(sorted((known.label, row.label)))
            raise ValueError(f"two labels, {names}, for the prompt {row.prompt[:80]!r}")
    missing = set(LABELS) - {row.label for row in by_text.values()}
    if missing:
        raise ValueError(f"no prompt is labelled {', '.join(sorted(missing))}")
    return list(by_text.values())


def report_of(truth: Sequence[str], predicted: Sequence[str]) -> DepthReport:
    """How predicted labels agree with true ones, both short."""
    confusion = {true: dict.fromkeys(LABELS, 0) for true in LABELS}
    for true, guess in zip(truth, predicted, strict=True):
        confusion[true][guess] += 1
    return report_of_confusion(confusion)


def report_of_confusion(confusion: dict[str, dict[str, int]]) -> DepthReport:
    """Accuracy and macro-F1 (over the classes that occur) of counts."""
    scores = []
    for name in LABELS:
        either = sum(confusion[name].values()) + sum(row[name] for row in confusion.values())
        if either:
            scores.append(2 * confusion[name][name] / either)
    right = sum(confusion[name][name] for name in LABELS)
    return DepthReport(
        right / max(1, sum(map(sum, (row.values() for row in confusion.values())))),
        sum(scores) / max(1, len(scores)),
        confusion,
    )
