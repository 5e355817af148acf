"""Training data that exists already keeps its duplicates out, and what cannot be read of it is never silent."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.flow.conftest import Flow, Row, sentence, trace
from trace_flywheel.flow.corpora import corpora_digest, read_corpora
from trace_flywheel.flow.datasets import sft_dataset
from trace_flywheel.records.errors import FlywheelError

MakeFlow = Callable[..., Flow]


def corpus(folder: Path, *rows: object, name: str = "merged.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": "A."}]},
        {"prompt": "Q?", "completion": "A."},
        {"prompt": [{"role": "user", "content": "Q?"}], "completion": [{"role": "assistant", "content": "A."}]},
        {"instruction": "Q?", "output": "A."},
        {"prompt": "Q?", "response": "A."},
    ],
)
def test_every_shape_of_a_row_is_the_same_row(row: Row, tmp_path: Path) -> None:
    same = corpus(tmp_path, {"prompt": "Q?", "completion": "A."}, name="other.jsonl")
    found, other = read_corpora([corpus(tmp_path, row)]), read_corpora([same])
    assert found.corpus is not None
    assert other.corpus is not None
    assert (found.rows, found.skipped) == (1, {})
    assert list(found.corpus.exact_hashes) == list(other.corpus.exact_hashes)
    assert list(found.corpus.names) == ["merged.jsonl:1"]


def test_duplicates_of_a_corpus_are_dropped_with_their_place(flow: MakeFlow, tmp_path: Path) -> None:
    whole, near, new = (trace(name, name, 1.0, seed) for name, seed in (("whole", 1), ("near", 9), ("new", 30)))
    words = sentence(9, 200).split()
    near["messages"] = [{"role": "user", "content": "Do near."}, {"role": "assistant", "content": " ".join(words)}]
    words[100] = "changed"
    known = [near["messages"][0], {"role": "assistant", "content": " ".join(words)}]
    file = corpus(tmp_path, {"messages": whole["messages"]}, {"messages": known}, "no json\n", {"text": "flat"})
    one = flow({"r1": [whole, near, new]}, corpora=[file])
    one.ingest()
    made = sft_dataset(one.curation())
    fates = {f["trace_id"]: f for f in pq.read_table(made.path / "fates.parquet").to_pylist()}
    assert (fates["whole"]["stage"], fates["whole"]["reason"]) == ("exact_duplicate", "corpus_exact_duplicate")
    assert (fates["near"]["stage"], fates["near"]["reason"]) == ("near_duplicate", "corpus_near_duplicate")
    assert fates["new"]["kept"]
    assert "merged.jsonl:1" in fates["whole"]["evidence"]
    assert "2 lines of the corpus merged.jsonl are of no known shape" in (made.path / "README.md").read_text()


def test_a_changed_corpus_makes_the_dataset_again(flow: MakeFlow, tmp_path: Path) -> None:
    row = trace("t", "t", 1.0, 1)
    file = corpus(tmp_path, {"prompt": "Q?", "completion": "A."})
    one = flow({"r1": [row]}, corpora=[file])
    one.ingest()
    assert sft_dataset(one.curation()).rows == 1
    corpus(tmp_path, {"messages": row["messages"]})
    assert sft_dataset(one.curation()).rows == 0


def test_a_missing_corpus_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(FlywheelError, match=r"gone.jsonl: the corpus cannot be read .* correct `corpora`"):
        corpora_digest([tmp_path / "gone.jsonl"])
