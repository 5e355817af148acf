"""The index of a corpus finds what reading the corpus anew finds, and reads no more of it than it must."""

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.flow.conftest import Flow, Row, sentence, trace, write_runs
from trace_flywheel.curation import segment
from trace_flywheel.curation.sketch import Spans
from trace_flywheel.flow import corpora as corpora_module
from trace_flywheel.flow import corpus_files, corpus_index, corpus_rows, corpus_segments, purge
from trace_flywheel.flow.corpora import Corpora, corpora_digest, open_corpora
from trace_flywheel.flow.corpus_segments import Comparison
from trace_flywheel.flow.datasets import sft_dataset
from trace_flywheel.flow.erasable import find_trace
from trace_flywheel.lake.dataset import fates as fates_of
from trace_flywheel.lake.dataset import find_version
from trace_flywheel.lake.segments import DamagedError, State, shelves
from trace_flywheel.lake.withdrawn import note
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.grading import Withdrawal

MakeFlow = Callable[..., Flow]
PLAIN = Comparison()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of a few rows, of which half keep their shingles; files count as settled at once."""
    monkeypatch.setattr(corpus_segments, "SEGMENT_ROWS", 4)
    monkeypatch.setattr(corpus_segments, "TOGETHER", 2)
    monkeypatch.setattr(corpus_index, "SETTLED_NS", 0)
    monkeypatch.setattr(segment, "LEAST", 0)
    monkeypatch.setattr(segment, "ROOM", 150)


def row(prompt: str, answer: str) -> Row:
    return {"messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]}


def rows_of(*seeds: int) -> list[Row]:
    return [row(f"Do task {seed}.", sentence(seed)) for seed in seeds]


def write(path: Path, rows: list[Row], mode: str = "w") -> Path:
    with path.open(mode) as file:
        file.writelines(json.dumps(one) + "\n" for one in rows)
    return path


def states(home: Path) -> list[State]:
    return [state for shelf in shelves(home / "lake") if (state := shelf.state()) is not None]


def found(opened: Corpora, *asked: Row) -> list[str | None]:
    """Where the first near row of each stands."""
    assert opened.corpus is not None
    spans = (Spans.of_texts(one["messages"][i]["content"] for one in asked) for i in (0, 1))
    match, _ = opened.corpus.near(*spans, 0.85)
    return [opened.corpus.name(m) if m >= 0 else None for m in match.tolist()]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the rows that are read."""
    numbers: list[int] = []
    whole = corpus_files.JsonLines.rows

    def rows(self: Any, after: Any = None) -> Iterator[corpus_rows.Placed]:
        for one in whole(self, after):
            numbers.append(one.number)
            yield one

    monkeypatch.setattr(corpus_files.JsonLines, "rows", rows)
    return numbers


def test_an_unchanged_corpus_is_not_read(tmp_path: Path, read: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "merged.jsonl", rows_of(*range(10)))
    first = open_corpora([file], tmp_path, PLAIN)
    assert read == list(range(1, 11))
    monkeypatch.setattr(corpus_files, "open_regular", lambda *_: pytest.fail("opened"))
    again = open_corpora([file], tmp_path, PLAIN)
    assert (again.rows, again.identities) == (10, first.identities)
    assert corpora_digest([file], tmp_path) == first.identities
    assert read == list(range(1, 11))


def test_a_corpus_written_a_moment_ago_is_not_trusted(
    tmp_path: Path, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within one tick of the clock a file may change without a trace; its bytes are looked at again."""
    monkeypatch.setattr(corpus_index, "SETTLED_NS", 10**12)
    file = write(tmp_path / "merged.jsonl", rows_of(1))
    open_corpora([file], tmp_path, PLAIN)
    (before,) = states(tmp_path)
    open_corpora([file], tmp_path, PLAIN)
    (after,) = states(tmp_path)
    assert read == [1]
    assert after.source["looked_ns"] > before.source["looked_ns"]


def test_of_a_grown_corpus_the_new_rows_are_read(tmp_path: Path, read: list[int]) -> None:
    file = write(tmp_path / "merged.jsonl", rows_of(*range(6)))
    open_corpora([file], tmp_path, PLAIN)
    read.clear()
    with file.open("a") as stream:
        stream.write("\nno json\n")
    write(file, rows_of(20, 21), "a")
    grown = open_corpora([file], tmp_path, PLAIN)
    assert read == [8, 9, 10]
    assert (grown.rows, grown.skipped) == (8, {"merged.jsonl": 1})
    assert found(grown, *rows_of(21, 3, 30)) == ["merged.jsonl:10", "merged.jsonl:4", None]
    assert open_corpora([file], tmp_path, PLAIN).skipped == {"merged.jsonl": 1}


@pytest.mark.parametrize("change", ["first row", "no newline", "shorter"])
def test_a_corpus_that_does_not_begin_as_before_is_read_anew(tmp_path: Path, read: list[int], change: str) -> None:
    file = write(tmp_path / "merged.jsonl", rows_of(*range(6)))
    if change == "no newline":
        file.write_text(file.read_text().rstrip("\n"))
    open_corpora([file], tmp_path, PLAIN)
    read.clear()
    text = file.read_text()
    if change == "first row":
        file.write_text(text.replace("task 0", "task X") + text)
    elif change == "no newline":
        file.write_text(text + "\n" + json.dumps(rows_of(7)[0]) + "\n")
    else:
        write(file, rows_of(2, 3))
    again = open_corpora([file], tmp_path, PLAIN)
    assert read == list(range(1, again.rows + 1))
    assert found(again, rows_of(2)[0]) == ["merged.jsonl:1" if change == "shorter" else "merged.jsonl:3"]


def test_segments_are_merged_as_they_come(tmp_path: Path) -> None:
    file = tmp_path / "merged.jsonl"
    for start in range(0, 60, 6):
        write(file, rows_of(*range(start, start + 6)), "a")
        grown = open_corpora([file], tmp_path, PLAIN)
    (state,) = states(tmp_path)
    assert state.rows == 60
    assert len(state.segments) <= 4
    folder = next(shelves(tmp_path / "lake")).folder
    assert {p.name for p in folder.iterdir()} == {"state.json", *(s.name for s in state.segments)}
    assert found(grown, *rows_of(0, 31, 59)) == [f"merged.jsonl:{n}" for n in (1, 32, 60)]


def spoil(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "torn":
        path.write_bytes(data[: len(data) // 2])
    elif how == "flipped":
        data[len(data) // 3] ^= 1
        path.write_bytes(data)
    elif how == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()


@pytest.mark.parametrize("how", ["torn", "flipped", "empty", "missing", "state"])
def test_a_damaged_index_is_made_again(tmp_path: Path, read: list[int], how: str) -> None:
    file = write(tmp_path / "merged.jsonl", rows_of(*range(6)))
    open_corpora([file], tmp_path, PLAIN)
    shelf = next(shelves(tmp_path / "lake"))
    state = shelf.state()
    assert state is not None
    read.clear()
    if how == "state":
        (shelf.folder / "state.json").write_text('{"format": 1, "cor')
        with pytest.raises(DamagedError, match=r"state.json: damaged .* the next refresh makes it again"):
            shelf.state()
    else:
        spoil(shelf.folder / state.segments[0].name, how)
        with pytest.raises(DamagedError, match=r"segment: (damaged|missing)"):
            shelf.arrays(state.segments[0])
    again = open_corpora([file], tmp_path, PLAIN)
    assert read == [1, 2, 3, 4, 5, 6]
    assert found(again, rows_of(5)[0]) == ["merged.jsonl:6"]


def test_what_a_killed_writer_left_is_nobody_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "merged.jsonl", rows_of(*range(4)))
    open_corpora([file], tmp_path, PLAIN)
    write(file, rows_of(4, 5, 6, 7, 8), "a")
    (before,) = states(tmp_path)
    shelf = next(shelves(tmp_path / "lake"))
    (shelf.folder / ".tmp-1-2").write_bytes(b"half")
    with monkeypatch.context() as patch:
        patch.setattr(type(shelf), "commit", lambda *_: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            open_corpora([file], tmp_path, PLAIN)
    assert states(tmp_path) == [before]
    assert found(open_corpora([file], tmp_path, PLAIN), rows_of(8)[0]) == ["merged.jsonl:9"]
    assert not list(shelf.folder.glob(".tmp-*"))


def test_a_copied_lake_is_believed_after_its_digests(tmp_path: Path, read: list[int]) -> None:
    file = write(tmp_path / "merged.jsonl", rows_of(*range(6)))
    open_corpora([file], tmp_path, PLAIN)
    shelf = next(shelves(tmp_path / "lake"))
    for path in shelf.folder.glob("*.segment"):
        os.utime(path, (1, 1))
    read.clear()
    open_corpora([file], tmp_path, PLAIN)
    assert read == []
    assert all(path.stat().st_mtime > 1 for path in shelf.folder.glob("*.segment"))


def test_without_a_place_to_write_it_is_made_in_memory(tmp_path: Path, read: list[int]) -> None:
    file = write(tmp_path / "merged.jsonl", rows_of(*range(6)))
    for _ in range(2):
        assert found(open_corpora([file], tmp_path, PLAIN, keep=False), rows_of(5)[0]) == ["merged.jsonl:6"]
    assert len(read) == 12
    assert not (tmp_path / "lake").exists()


def test_corpora_pass_the_redactor_that_rollouts_pass(flow: MakeFlow, tmp_path: Path) -> None:
    """The same conversation, with its address in the corpus and without it in the lake, is one."""
    said = f"Write to ann.lee@corp-mail.com or bob.ray@corp-mail.com. {sentence(1)}"
    rollout = trace("t", "t", 1.0, 1)
    rollout["messages"][0]["content"] = said
    file = write(tmp_path / "merged.jsonl", [{"messages": rollout["messages"]}])
    one = flow({"r1": [rollout]}, corpora=[file])
    made = one.run()["sft_dataset"]
    assert made.ledger.dropped == {"exact_duplicate": {"corpus_exact_duplicate": 1}}
    off = flow({"r1": [rollout]}, name="off", corpora=[file], redaction={"pii": "none"})
    assert off.run()["sft_dataset"].ledger.dropped == {"exact_duplicate": {"corpus_exact_duplicate": 1}}
    assert "ann.lee" not in "".join(
        path.read_bytes().decode("latin1") for path in (one.lake.root / "corpora").rglob("*") if path.is_file()
    )


def test_other_rules_are_another_index_and_old_ones_go(tmp_path: Path) -> None:
    file = write(tmp_path / "merged.jsonl", rows_of(1))
    ways = [Comparison(pii, masks) for pii in ("standard", "none") for masks in (None, "mask", "keep")]  # type: ignore[arg-type]
    for way in ways:
        open_corpora([file], tmp_path, way)
    assert len({way.key for way in ways}) == 6
    assert ways[-1].key in {state.key for state in states(tmp_path)}
    assert len(states(tmp_path)) == 3


@given(st.integers(0, 10**6))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_datasets_are_the_same_with_an_index_and_without(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Byte for byte, whatever the corpora are cut into, and when they grow under the index."""
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("same")
    bases = [sentence(n, 60).split() for n in range(3)]

    def text() -> str:
        words = list(rng.choice(bases))
        for _ in range(rng.choice((0, 0, 1, 4))):
            words[rng.randrange(60)] = f"w{rng.randrange(9)}"
        return " ".join(words)

    rollouts = [trace(f"t{n}", f"task{n % 4}", 1.0, n) for n in range(14)]
    for one in rollouts:
        one["messages"] = row("Do it.", text())["messages"]
    known = [row("Do it.", text()) for _ in range(12)]
    root = write_runs(folder / "data", {"r1": rollouts})
    lines, table = folder / "a.jsonl", folder / "b.parquet"
    write(lines, known[:3])
    pq.write_table(pa.Table.from_pylist(known[8:]), table, row_group_size=2)
    chosen = {"selection": {"keep_fraction": 1.0, "max_per_task": 9}, "corpora": [lines, table]}
    made = {}
    for kept in (True, False):
        write(lines, known[:3])
        one = Flow(root, folder / f"home{kept}", dedup={"index": kept}, **chosen)
        one.ingest()
        sft_dataset(one.curation())
        write(lines, known[3:8], "a")
        made[kept] = sft_dataset(one.curation())
        assert (one.lake.root / "corpora").exists() is kept
    assert made[True].version == made[False].version
    for path in sorted(p for p in made[True].path.rglob("*") if p.is_file()):
        assert path.read_bytes() == (made[False].path / path.relative_to(made[True].path)).read_bytes(), path.name


def fates(one: Flow) -> dict[str, str | None]:
    version = find_version(one.settings.home, "sft_dataset")
    return {f["trace_id"]: f["reason"] for f in fates_of(version).to_pylist()}


def test_a_withdrawn_row_of_an_earlier_version_holds_nothing_out(flow: MakeFlow) -> None:
    words = sentence(1, 200).split()
    old = trace("old", "a", 1.0, 1)
    old["messages"][1]["content"] = " ".join(words)
    first = flow({"r1": [old, trace("other", "c", 1.0, 40)]})
    version = first.run()["sft_dataset"].version
    words[100] = "changed"
    new = trace("new", "b", 1.0, 1)
    new["messages"] = [old["messages"][0], {"role": "assistant", "content": " ".join(words)}]
    write_runs(first.root, {"r2": [new]})
    one = Flow(first.root, first.settings.home, corpora=[f"dataset:sft_dataset@{version}"], dedup={"mode": "delta"})
    one.ingest()
    sft_dataset(one.curation())
    held = {"old": "corpus_exact_duplicate", "other": "corpus_exact_duplicate", "new": "corpus_near_duplicate"}
    assert fates(one) == held
    entry = Withdrawal("wrong", trace="old")
    note(one.lake, entry)
    sft_dataset(one.curation())
    assert fates(one) == {"old": "withdrawn", "other": "corpus_exact_duplicate", "new": None}
    note(one.lake, entry, undo=True)
    sft_dataset(one.curation())
    assert fates(one) == held


def test_an_erased_row_leaves_the_index_and_does_not_come_back(flow: MakeFlow, tmp_path: Path) -> None:
    rollouts = [trace(f"t{n}", f"task{n}", 1.0, n + 1) for n in range(3)]
    file = write(tmp_path / "merged.jsonl", [{"messages": rollouts[0]["messages"]}, *rows_of(50, 51)])
    one = flow({"r1": rollouts}, corpora=[file])
    one.run()
    (hash_of,) = [r["exact_hash"] for r in index_rows(one) if r["trace_id"] == "t0"]
    assert holds(one, hash_of)
    curation = one.curation()
    done = purge.purge(one.lake, one.settings, curation.inputs, find_trace(one.lake, "t0"), "asked")
    assert done.indexed == 1
    assert not holds(one, hash_of)
    write(file, rows_of(52), "a")
    opened = one.curation().corpora("sft_dataset")
    assert (opened.rows, holds(one, hash_of)) == (3, False)
    for shelf in list(shelves(one.lake.root)):
        shelf.remove()
    again = Flow(one.root, one.settings.home, corpora=[file]).curation().corpora("sft_dataset")
    assert (again.rows, holds(one, hash_of)) == (3, False)
    off = Flow(one.root, one.settings.home, corpora=[file], dedup={"index": False})
    assert off.curation().corpora("sft_dataset").rows == 3


def test_the_index_of_an_erased_version_goes(flow: MakeFlow) -> None:
    one = flow({"r1": [trace("t0", "a", 1.0, 1), trace("t1", "b", 1.0, 9)]})
    version = one.run()["sft_dataset"].version
    open_corpora([Path(f"dataset:sft_dataset@{version}")], one.settings.home, PLAIN)
    assert [state.rows for state in states(one.settings.home)] == [2]
    inputs = one.curation().inputs
    done = purge.purge(one.lake, one.settings, inputs, find_trace(one.lake, "t0"), "asked")
    assert done.indexed == 2
    assert states(one.settings.home) == []


def index_rows(one: Flow) -> list[Row]:
    return [
        r for path in (one.lake.root / "rollout_index").rglob("part-*.parquet") for r in pq.read_table(path).to_pylist()
    ]


def holds(one: Flow, exact_hash: str) -> bool:
    high, low = (int(exact_hash[i : i + 16], 16) for i in (0, 16))
    for shelf in shelves(one.lake.root):
        state = shelf.state()
        for file in state.segments if state else ():
            digests = shelf.arrays(file)["digests"]
            if ((digests[0] == high) & (digests[1] == low)).any():
                return True
    return False


def test_a_corpus_that_changes_while_it_is_read_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "merged.jsonl", rows_of(1, 2))
    whole = corpus_files.JsonLines.rows

    def rows(self: Any, after: Any = None) -> Iterator[corpus_rows.Placed]:
        yield from whole(self, after)
        write(file, rows_of(3), "a")

    monkeypatch.setattr(corpus_files.JsonLines, "rows", rows)
    with pytest.raises(FlywheelError, match=r"merged.jsonl: changed while it was read"):
        open_corpora([file], tmp_path, PLAIN)
    assert states(tmp_path) == []
    assert corpora_module.corpora_digest([file], tmp_path)
