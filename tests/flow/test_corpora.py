"""Training data that exists already keeps its duplicates out, and what cannot be read of it is never silent."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flow.conftest import Flow, Row, sentence, trace, write_runs
from trace_flywheel.flow import corpus_tables
from trace_flywheel.flow.corpora import Corpora, corpora_digest, open_corpora
from trace_flywheel.flow.corpus_segments import Comparison
from trace_flywheel.flow.datasets import sft_dataset
from trace_flywheel.lake.dataset import fates as fates_of
from trace_flywheel.lake.dataset import find_version
from trace_flywheel.records.errors import FlywheelError

MakeFlow = Callable[..., Flow]


def corpus(folder: Path, *rows: object, name: str = "merged.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return path


def read_corpora(paths: list[Path], home: Path) -> Corpora:
    return open_corpora(paths, home, Comparison())


def hashes_of(found: Corpora) -> list[list[int]]:
    assert found.corpus is not None
    return [one.digests.tolist() for part in found.corpus.parts for one in part.segments]


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": "A."}]},
        {"prompt": "Q?", "completion": "A."},
        {"prompt": [{"role": "user", "content": "Q?"}], "completion": [{"role": "assistant", "content": "A."}]},
        {"instruction": "Q?", "output": "A."},
        {"prompt": "Q?", "response": "A."},
        {"instruction": "Q?", "input": "", "output": "A."},
        {"conversations": [{"from": "human", "value": "Q?"}, {"from": "gpt", "value": "A."}]},
    ],
)
def test_every_shape_of_a_row_is_the_same_row(row: Row, tmp_path: Path) -> None:
    same = corpus(tmp_path, {"prompt": "Q?", "completion": "A."}, name="other.jsonl")
    found, other = read_corpora([corpus(tmp_path, row)], tmp_path), read_corpora([same], tmp_path)
    assert (found.rows, found.skipped) == (1, {})
    assert hashes_of(found) == hashes_of(other)
    assert found.corpus is not None
    assert found.corpus.name(0) == "merged.jsonl:1"


def test_an_input_is_a_part_of_the_instruction(tmp_path: Path) -> None:
    row = {"instruction": "Translate.", "input": "Haus", "output": "house"}
    found = read_corpora([corpus(tmp_path, row)], tmp_path)
    same = corpus(tmp_path, {"prompt": "Translate.\n\nHaus", "completion": "house"}, name="other.jsonl")
    assert hashes_of(found) == hashes_of(read_corpora([same], tmp_path))


def test_a_speaker_that_is_unknown_is_counted_and_not_guessed(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "Q?"}, {"from": "chorus", "value": "A."}]
    found = read_corpora([corpus(tmp_path, {"conversations": turns}, {"conversations": []})], tmp_path)
    assert (found.rows, found.skipped) == (0, {"merged.jsonl": 2})


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
    with pytest.raises(
        FlywheelError,
        match=r"gone.jsonl: the corpus cannot be read .* correct --dedup-against or the setting `corpora`",
    ):
        corpora_digest([tmp_path / "gone.jsonl"], tmp_path)


@pytest.mark.parametrize("apart", [False, True])
def test_a_table_is_read_like_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    """Whatever a table makes of messages: structs with nulls for absent keys, or JSON text."""
    call = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "List."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "a b", "tool_call_id": "c"},
        {"role": "assistant", "content": "Two."},
    ]
    monkeypatch.setattr(corpus_tables, "APART_BYTES", 0 if apart else 1_000_000)
    tables = {"structs": [{"messages": messages}, {"messages": None}], "text": [{"messages": json.dumps(messages)}]}
    expected = read_corpora([corpus(tmp_path, {"messages": messages})], tmp_path)
    for name, rows in tables.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)
        found = read_corpora([path], tmp_path)
        assert hashes_of(found) == hashes_of(expected)
        assert found.skipped == ({"structs.parquet": 1} if name == "structs" else {})


@pytest.mark.parametrize("apart", [False, True])
def test_rows_of_a_table_are_found_again_by_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    monkeypatch.setattr(corpus_tables, "APART_BYTES", 0 if apart else 1_000_000)
    path = tmp_path / "x.parquet"
    rows = [{"messages": json.dumps([{"role": "user", "content": f"number {n}"}])} for n in range(50)]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=20)
    found = [messages[0].content for messages, _ in corpus_tables.Table(path).again([0, 15, 16, 19, 20, 49])]
    assert found == [f"number {n}" for n in (0, 15, 16, 19, 20, 49)]
    assert [placed.number for placed in corpus_tables.Table(path).rows()] == list(range(1, 51))


@pytest.mark.parametrize("apart", [False, True])
def test_a_file_that_is_no_table_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    monkeypatch.setattr(corpus_tables, "APART_BYTES", 0 if apart else 1_000_000)
    path = tmp_path / "x.parquet"
    path.write_text("no")
    with pytest.raises(FlywheelError, match=r"x.parquet: no Parquet file"):
        read_corpora([path], tmp_path)


def test_own_versions_count_only_in_a_delta(flow: MakeFlow) -> None:
    old, new = trace("old", "a", 1.0, 1), trace("new", "b", 1.0, 20)
    first = flow({"r1": [old]})
    version = first.run()["sft_dataset"].version
    known = [f"dataset:sft_dataset@{version}"]
    write_runs(first.root, {"r2": [new]})
    rows = {}
    for mode in ("cumulative", "delta"):
        one = Flow(first.root, first.settings.home, corpora=known, dedup={"mode": mode})
        one.ingest()
        made = sft_dataset(one.curation())
        fates = {f["trace_id"]: f for f in fates_of(find_version(one.settings.home, "sft_dataset")).to_pylist()}
        rows[mode] = {trace_id: fate["reason"] for trace_id, fate in fates.items()}
        manifest = json.loads((made.path / "manifest.json").read_text())
        assert manifest["facts"]["corpora"] == known
        assert sft_dataset(one.curation()).status == "unchanged"
    assert rows == {
        "cumulative": {"old": None, "new": None},
        "delta": {"old": "corpus_exact_duplicate", "new": None},
    }


def test_a_version_of_another_dataset_counts_in_every_mode(flow: MakeFlow) -> None:
    one = flow({"r1": [trace("t", "a", 1.0, 1)]}, datasets={"mine": {}})
    version = one.run()["sft_dataset"].version
    again = Flow(one.root, one.settings.home, datasets={"mine": {}}, corpora=[f"dataset:sft_dataset@{version}"])
    assert sft_dataset(again.curation(), "mine").ledger.dropped == {"exact_duplicate": {"corpus_exact_duplicate": 1}}


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("dataset:sft_dataset", "names no version"),
        ("dataset:sft_dataset@0000", "no version"),
        ("dataset:x@1", "no dataset"),
    ],
)
def test_a_version_that_is_not_there_is_said_in_words(address: str, text: str, flow: MakeFlow) -> None:
    one = flow({"r1": [trace("t", "a", 1.0, 1)]})
    one.run()
    with pytest.raises(FlywheelError, match=text):
        corpora_digest([Path(address)], one.settings.home)


def test_a_task_that_duplicates_take_most_of_is_an_alarm(flow: MakeFlow) -> None:
    words = sentence(1, 300).split()
    rows = []
    for i in range(5):
        words[10 + 60 * i] = f"other{i}"
        rows.append(trace(f"a-{i}", "a", 1.0, 1))
        rows[-1]["messages"][1]["content"] = " ".join(words)
    one = flow({"r1": [*rows, trace("b", "b", 1.0, 50)]}, selection={"keep_fraction": 1.0})
    made = one.run()["sft_dataset"]
    (warning,) = made.facts["warnings"]
    assert warning.startswith("1 tasks lost more than 50% of their rows to near-duplicates, a the most (4 of 5)")
    assert made.facts["collapsed"] == {"a": [5, 4]}
    assert "look whether a template" in (made.path / "README.md").read_text()
    calm = flow({"r1": rows}, name="calm", selection={"keep_fraction": 1.0}, dedup={"alarm_share": 1.0})
    assert calm.run()["sft_dataset"].facts["warnings"] == []


def test_reading_a_version_takes_no_table_library() -> None:
    """`convert --dedup-against dataset:…` reads its rows alone: pandas and pyarrow are 80 MB of any process."""
    code = "import sys, trace_flywheel.flow.corpus_versions; sys.exit(bool({'pandas', 'pyarrow'} & sys.modules.keys()))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=env).returncode == 0
