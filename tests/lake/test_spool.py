"""Lines are given back as they were written, whoever wrote them, or not at all."""

import os
from pathlib import Path

import pytest

from trace_flywheel.lake.shards import Shard, cut, write_shard
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.lake.spool import Place, Places, Spools, spooled, unspool


def test_lines_come_back_by_place_in_any_order(tmp_path: Path) -> None:
    with Spools(tmp_path) as spools:
        places = [spools.add("a", [b"1"]), spools.add("a", [b"2", b"3"]), spools.add("a", []), spools.add("b", [b"4"])]
    assert [(p.size, p.lines) for p in places] == [(2, 1), (4, 2), (0, 0), (2, 1)]
    assert list(spooled(tmp_path, "a", [places[1], places[2], places[0]])) == [b"2\n3\n", b"", b"1\n"]
    assert list(spooled(tmp_path, "b", [places[3]])) == [b"4\n"]


def test_a_process_goes_on_where_it_stopped_and_beside_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = []
    for process in (7, 8, 7):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        with Spools(tmp_path) as spools:
            places.append(spools.add("a", [b"%d" % len(places)]))
    assert [(p.writer, p.offset) for p in places] == [(7, 0), (8, 0), (7, 2)]
    assert list(spooled(tmp_path, "a", places)) == [b"0\n", b"1\n", b"2\n"]
    unspool(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_line_with_a_line_feed_is_refused(tmp_path: Path) -> None:
    with Spools(tmp_path) as spools, pytest.raises(ValueError, match="line feed"):
        spools.add("a", [b"1\n2"])


def test_what_is_not_what_was_written_is_not_given_back(tmp_path: Path) -> None:
    with Spools(tmp_path) as spools:
        place = spools.add("a", [b"judged"])
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"others\n")
    with pytest.raises(LakeError, match="changed before it was published"):
        list(spooled(tmp_path, "a", [place]))


def test_a_file_that_somebody_had_begun_is_written_anew(tmp_path: Path) -> None:
    with Spools(tmp_path) as spools:
        places = [spools.add("a", [line]) for line in (b"1", b"2")]
    (tmp_path / "data-00000.jsonl").write_bytes(b"half of")
    digest = write_shard(Shard(tmp_path, "a", "data-00000.jsonl", Places(places[::-1])))
    assert (tmp_path / "data-00000.jsonl").read_bytes() == b"2\n1\n"
    assert digest == "451d660bc5f37a981539cf07c4c6a182693a7d165b4589ecb1165a72555ff90a"


def test_files_are_cut_by_bytes_and_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_flywheel.lake.shards.SHARD_BYTES", 10)
    monkeypatch.setattr("trace_flywheel.lake.shards.SHARD_ROWS", 4)
    places = [Place(1, 0, size, lines, 0) for size, lines in ((20, 1), (5, 1), (5, 2), (1, 1), (2, 3), (0, 0), (1, 1))]
    assert [[p.size for p in file] for file in cut(Places(places))] == [[20], [5, 5], [1, 2], [0, 1]]
    assert [len(file) for file in cut(Places())] == [0]
