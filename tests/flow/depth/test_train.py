"""Training from labelled files: what a labelled row is, the gate, and what the model says of itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.curation.depth import DepthModel, Labelled
from trace_flywheel.curation.tgfr import Options, TgfrModel
from trace_flywheel.flow.depth.rows import model_of
from trace_flywheel.flow.depth.train import judge, read_labels, told, train_default, train_tgfr
from trace_flywheel.records.errors import FlywheelError


def file_of(tmp_path: Path, *rows: dict[str, Any], name: str = "labels.jsonl") -> Path:
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_labels_in_every_spelling_and_those_that_wait(tmp_path: Path) -> None:
    path = file_of(
        tmp_path,
        {"prompt": "a", "reasoning_depth": "multi-hop"},
        {"text": "b", "label": "single"},
        {"prompt": "c", "label": None, "guess": "other"},
    )
    read = read_labels(path)
    assert (read.labelled, read.waiting) == ([Labelled("a", "multi"), Labelled("b", "single")], 1)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"prompt": "a", "label": "deep"}, "'deep' is no depth label"),
        ({"prompt": "a"}, "prompt and label"),
        ({"label": "other"}, "prompt and label"),
        ({"prompt": " ", "label": "other"}, "prompt and label"),
    ],
)
def test_a_row_that_teaches_nothing_is_named(tmp_path: Path, row: dict[str, Any], says: str) -> None:
    with pytest.raises(FlywheelError, match=r"labels.jsonl:2: ") as raised:
        read_labels(file_of(tmp_path, {"prompt": "a", "label": "other"}, row))
    assert says in str(raised.value)


def test_the_model_is_saved_with_what_it_was_trained_and_judged_on(tmp_path: Path) -> None:
    held_out = file_of(tmp_path, {"prompt": "capital of peru?", "label": "single"}, name="held.jsonl")
    more = file_of(tmp_path, {"prompt": "sum the invoices you find in mail", "label": "multi"})
    answer = train_default([more], True, held_out, 0.0, tmp_path / "m")
    model = model_of(tmp_path / "m")
    assert isinstance(model, DepthModel)
    assert model.info["held_out"]["by"] == "held-out file"
    assert {"training_set", "versions", "labels", "rows"} <= model.info.keys()
    assert answer["waiting"] == 0
    again = train_default([more], True, held_out, 0.0, tmp_path / "again")
    assert again["training_set"] == answer["training_set"]
    for name in ("depth.npz", "depth.json"):
        assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == ["depth.json", "depth.npz"]


def test_the_gate_and_a_missing_class_write_nothing(tmp_path: Path) -> None:
    wrong = file_of(tmp_path, {"prompt": "capital of peru?", "label": "other"}, name="held.jsonl")
    with pytest.raises(FlywheelError, match=r"macro-F1 0\.\d+ by held-out file is below --min-f1 0.9"):
        train_default([], True, wrong, 0.9, tmp_path / "m")
    with pytest.raises(FlywheelError, match="no prompt is labelled comparison"):
        train_default([file_of(tmp_path, {"prompt": "a", "label": "other"})], False, wrong, 0.0, tmp_path / "m")
    with pytest.raises(FlywheelError, match="no labelled row"):
        train_tgfr([], Options(), None, 0.0, tmp_path / "m.tgfr")
    assert not (tmp_path / "m").exists()


def test_a_tgfr_is_trained_judged_and_written(tmp_path: Path) -> None:
    rows = [("what year", "single"), ("find then count", "multi"), ("tea or coffee", "comparison"), ("a poem", "other")]
    path = file_of(tmp_path, *({"prompt": prompt, "label": label} for prompt, label in rows))
    answer = train_tgfr([path], Options(vocab=1024, epochs=3), path, 0.9, tmp_path / "m.tgfr")
    assert [set(epoch) for epoch in answer["epochs"]] == [{"loss", "accuracy"}] * 3
    assert answer["held_out"]["macro_f1"] == 1.0
    assert TgfrModel.load(tmp_path / "m.tgfr").label(["tea or coffee"])[0] == ["comparison"]


def test_the_report_counts_by_class() -> None:
    class Always:
        def label(self, prompts: Any) -> Any:
            return ["single"] * len(prompts), [1.0] * len(prompts)

    report = told(judge(Always(), [Labelled("a", "single"), Labelled("b", "multi")]))
    assert report["classes"]["single"] == {"precision": 0.5, "recall": 1.0, "f1": 0.6667, "n": 1}
    assert report["confusion"]["multi"]["single"] == 1
    assert report["accuracy"] == 0.5


@pytest.mark.corpus
def test_the_seed_set_labels_the_originals_held_out_rows(shared_dir: Path) -> None:
    held_out = read_labels(shared_dir / "atraj" / "fixtures" / "classifier" / "heldout.jsonl").labelled
    assert judge(model_of(None), held_out).accuracy >= 0.97


def test_a_rate_that_leaves_no_numbers_writes_nothing(tmp_path: Path) -> None:
    labels, out = tmp_path / "labels.jsonl", tmp_path / "m.tgfr"
    rows = [{"prompt": "a c", "label": "single"}, {"prompt": "b c", "label": "multi"}]
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(FlywheelError, match="smaller --lr"):
        train_tgfr([labels], Options(lr=1e38), None, 0.0, out)
    assert not out.exists()
