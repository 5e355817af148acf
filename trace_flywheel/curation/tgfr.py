"""PostTrainLLM's depth classifier: hashed word n-grams into a linear softmax, and its `.tgfr` file.

Words are runs of letters and digits of the lower-cased text; uni-, bi- and trigrams (joined by `_`) are hashed FNV-1a
32 mod `vocab` and counted as often as they stand. All arithmetic is in 32-bit floats, in its order, so that a model
trained here has the numbers of one trained there up to the last bits of `exp`.

File, little-endian: `TGFR`, u32 version 1, u32 vocab, u32 n-gram order, u32 classes, then per class its f32 bias and
vocab x f32 weights. Labels are not stored: their order is fixed.
"""

import math
import struct
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from trace_flywheel.curation.compiled import compiled
from trace_flywheel.curation.mulberry import Mulberry32

LABELS = ("single", "multi", "comparison", "other")
MAGIC, VERSION, HEADER = b"TGFR", 1, struct.Struct("<4sIIII")
MIN_VOCAB = 1024


class Options(msgspec.Struct, frozen=True):
    """Its training options and their defaults."""

    vocab: int = 65536
    ngram: int = 3
    epochs: int = 8
    lr: float = 0.1
    l2: float = 1e-5
    seed: int = 42


class Epoch(msgspec.Struct, frozen=True):
    """Mean loss and accuracy, measured before each update."""

    loss: float
    accuracy: float


class TgfrModel:
    """`weights` (4, vocab) and `bias` (4), float32."""

    def __init__(self, ngram: int, weights: np.ndarray, bias: np.ndarray) -> None:
        self.ngram, self.weights, self.bias = ngram, weights, bias

    def label(self, prompts: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """The class of each prompt and its probability; ties go to the first class."""
        chances = np.array([self._chances(prompt) for prompt in prompts]).reshape(-1, len(LABELS))
        best = chances.argmax(axis=1)
        return [LABELS[i] for i in best], chances[np.arange(len(best)), best]

    def _chances(self, prompt: str) -> np.ndarray:
        found = buckets(prompt, self.ngram, self.weights.shape[1])
        logits = self.bias + self.weights[:, found].sum(axis=1, dtype=np.float32)
        odds = np.exp(logits - logits.max())
        chances: np.ndarray = odds / odds.sum()
        return chances

    def encoded(self) -> bytes:
        """The file's bytes."""
        table = np.concatenate([self.bias[:, None], self.weights], axis=1).astype("<f4")
        return HEADER.pack(MAGIC, VERSION, self.weights.shape[1], self.ngram, len(LABELS)) + table.tobytes()

    @classmethod
    def load(cls, path: Path) -> "TgfrModel":
        """A saved model; `ValueError` says what is wrong with the file."""
        data = path.read_bytes()
        if len(data) < HEADER.size or data[:4] != MAGIC:
            raise ValueError(f"{path}: no .tgfr file")
        _, version, vocab, ngram, classes = HEADER.unpack_from(data)
        if version != VERSION or classes != len(LABELS) or not 1 <= ngram <= 3 or not vocab:
            raise ValueError(f"{path}: version {version} with {classes} classes; known: version 1 with {len(LABELS)}")
        wanted = HEADER.size + 4 * classes * (vocab + 1)
        if len(data) != wanted:
            raise ValueError(f"{path}: {len(data)} bytes, a model of this header has {wanted}: the file is torn")
        table = np.frombuffer(data, dtype="<f4", offset=HEADER.size).reshape(classes, vocab + 1)
        if not np.isfinite(table).all():
            raise ValueError(f"{path}: weights that are no finite numbers")
        return cls(ngram, table[:, 1:].astype(np.float32), table[:, 0].astype(np.float32))


def words_of(text: str) -> list[str]:
    """Runs of letters and digits, a letter's combining marks with it."""
    words: list[str] = []
    inside = False
    for character in text.lower():
        if character.isalnum() or (inside and unicodedata.combining(character)):
            if inside:
                words[-1] += character
            else:
                words.append(character)
            inside = True
        else:
            inside = False
    return words


def buckets(text: str, ngram: int, vocab: int) -> np.ndarray:
    """Buckets of the text's n-grams, repeats kept: all words, then all pairs, then all triples."""
    words = words_of(text)
    grams = ["_".join(words[i : i + n]) for n in range(1, ngram + 1) for i in range(len(words) - n + 1)]
    return np.array([_fnv32(gram.encode()) % vocab for gram in grams], dtype=np.int64)


def _fnv32(data: bytes) -> int:
    h = 0x811C9DC5
    for byte in data:
        h = ((h ^ byte) * 0x01000193) & 0xFFFFFFFF
    return h


def train(prompts: Sequence[str], labels: Sequence[str], options: Options) -> tuple[TgfrModel, list[Epoch]]:
    """Fit on labelled prompts in their order, as the original does. `labels` are names of `LABELS`."""
    rows = [buckets(prompt, options.ngram, options.vocab) for prompt in prompts]
    truth = [LABELS.index(label) for label in labels]
    weights = np.zeros((len(LABELS), options.vocab), dtype=np.float32)
    bias = np.zeros(len(LABELS), dtype=np.float32)
    generator, order = Mulberry32(options.seed), list(range(len(rows)))
    lr, l2 = np.float32(options.lr), np.float32(options.l2)
    history = []
    for _ in range(options.epochs):
        generator.shuffle(order)
        loss, right = 0.0, 0
        for i in order:
            chances = _step(weights, bias, rows[i], truth[i], lr, l2)
            loss -= math.log(max(float(chances[truth[i]]), 1e-10))
            right += int(chances.argmax()) == truth[i]
        history.append(Epoch(loss / max(1, len(rows)), right / max(1, len(rows))))
    return TgfrModel(options.ngram, weights, bias), history


@compiled
def _step(
    weights: np.ndarray, bias: np.ndarray, found: np.ndarray, truth: int, lr: np.float32, l2: np.float32
) -> np.ndarray:
    """One update in place; the probabilities before it."""
    classes = len(bias)
    logits = bias.copy()
    for c in range(classes):
        for b in found:
            logits[c] += weights[c, b]
    odds = np.exp(logits - logits.max())
    chances: np.ndarray = odds / odds.sum()
    for c in range(classes):
        gradient = chances[c] - np.float32(1.0 if c == truth else 0.0)
        bias[c] -= lr * gradient
        for b in found:
            weights[c, b] -= lr * (gradient + l2 * weights[c, b])
    return chances
