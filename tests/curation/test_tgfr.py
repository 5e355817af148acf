"""The original's classifier: its features, its training numbers, its file."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trace_flywheel.curation.depth import short_label
from trace_flywheel.curation.mulberry import Mulberry32
from trace_flywheel.curation.tgfr import LABELS, Options, TgfrModel, buckets, train, words_of

PROMPTS = ["What is two?", "First find x, then y", "tea or coffee", "write a poem"]


def small() -> TgfrModel:
    return train(PROMPTS, list(LABELS), Options(vocab=1024))[0]


def test_the_generator_gives_its_published_numbers() -> None:
    generator = Mulberry32(42)
    assert [generator.next() for _ in range(3)] == [2581720956, 1925393290, 3661312704]
    assert Mulberry32(0).next() == Mulberry32(0xDEADBEEF).next() == Mulberry32(1 << 32).next()


def test_a_shuffle_is_a_permutation() -> None:
    items = list(range(100))
    Mulberry32(7).shuffle(items)
    assert sorted(items) == list(range(100)) != items


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What's up_to 2day?", ["what", "s", "up", "to", "2day"]),
        ("CAFE\u0301 \u0301x", ["cafe\u0301", "x"]),
        ("", []),
        ("Straße 日本", ["straße", "日本"]),
    ],
)
def test_words_are_runs_of_letters_and_digits(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_ngrams_come_by_order_with_repeats() -> None:
    def fnv(text: str) -> int:
        h = 0x811C9DC5
        for byte in text.encode():
            h = ((h ^ byte) * 0x01000193) % (1 << 32)
        return h % 65536

    grams = ["a", "a", "b", "a_a", "a_b", "a_a_b"]
    assert buckets("a a b", 3, 65536).tolist() == [fnv(gram) for gram in grams]
    assert len(buckets("one", 3, 65536)) == 1


def test_a_model_survives_its_file(tmp_path: Path) -> None:
    model = small()
    (tmp_path / "m.tgfr").write_bytes(model.encoded())
    assert (tmp_path / "m.tgfr").stat().st_size == 20 + 4 * 4 * 1025
    assert struct.unpack("<4sIIII", (tmp_path / "m.tgfr").read_bytes()[:20]) == (b"TGFR", 1, 1024, 3, 4)
    again = TgfrModel.load(tmp_path / "m.tgfr")
    assert again.encoded() == model.encoded()
    assert again.label(PROMPTS)[0] == model.label(PROMPTS)[0] == list(LABELS)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data[:10], "no .tgfr file"),
        (lambda data: b"TGFX" + data[4:], "no .tgfr file"),
        (lambda data: data[:4] + b"\x02" + data[5:], "version 2"),
        (lambda data: data[:-4], "torn"),
    ],
)
def test_a_broken_file_is_told(tmp_path: Path, change: Any, says: str) -> None:
    (tmp_path / "m.tgfr").write_bytes(change(small().encoded()))
    with pytest.raises(ValueError, match=says):
        TgfrModel.load(tmp_path / "m.tgfr")


def test_unknown_words_leave_it_to_the_biases_and_ties_to_the_first_class() -> None:
    empty = TgfrModel(3, np.zeros((4, 1024), np.float32), np.zeros(4, np.float32))
    labels, confidences = empty.label(["anything", ""])
    assert labels == ["single", "single"]
    assert confidences.tolist() == [0.25, 0.25]
    assert empty.label([])[0] == []


@pytest.mark.corpus
def test_the_originals_training_run(shared_dir: Path) -> None:
    def rows(name: str) -> list[dict[str, str]]:
        path = shared_dir / "atraj" / "fixtures" / "classifier" / name
        return [json.loads(line) for line in path.read_text().splitlines()]

    expected = json.loads((shared_dir / "atraj" / "expected" / "classifier.json").read_text())
    given, held_out = rows("train.jsonl"), rows("heldout.jsonl")
    labels = [short_label(row["reasoning_depth"]) for row in given]
    model, epochs = train([row["prompt"] for row in given], labels, Options())
    told = [{"loss": round(e.loss, 4), "train_acc": e.accuracy} for e in epochs]
    assert told == expected["epochs"]
    assert len(model.encoded()) == expected["model_bytes"] == 1_048_612
    predicted, confidences = model.label([row["prompt"] for row in held_out])
    wanted = expected["heldout_predictions"]
    assert predicted == [short_label(one["predicted"]) for one in wanted]
    assert confidences == pytest.approx([max(one["probabilities"]) for one in wanted], abs=2e-4)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, number: float) -> None:
    model = small()
    model.weights[2, 7] = number
    (tmp_path / "m.tgfr").write_bytes(model.encoded())
    with pytest.raises(ValueError, match="no finite numbers"):
        TgfrModel.load(tmp_path / "m.tgfr")
