import hashlib
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.sources import jsonl
from trace_flywheel.sources.jsonl import Document, Fault, Line, read_document, read_lines

LIMIT = 1_000_000


def lines(tmp_path: Path, data: bytes, limit: int = LIMIT, **kwargs: Any) -> list[Line | Fault]:
    path = tmp_path / "f.jsonl"
    path.write_bytes(data)
    return list(read_lines(path, tmp_path, limit, **kwargs))


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\f", "\x1c"])
def test_only_the_newline_byte_ends_a_line(tmp_path: Path, separator: str) -> None:
    text = f"before{separator}after"
    data = json.dumps({"t": text}, ensure_ascii=separator < " ").encode() + b"\n" + b'{"t":"next"}\n'
    assert lines(tmp_path, data) == [Line(1, {"t": text}), Line(2, {"t": "next"})]


def test_blank_lines_count_but_are_not_read(tmp_path: Path) -> None:
    assert lines(tmp_path, b'\n{"a":1}\r\n  \n{"a":2}') == [Line(2, {"a": 1}), Line(4, {"a": 2})]


def test_a_torn_last_line_is_told_from_a_torn_middle_one(tmp_path: Path) -> None:
    first, middle, last = lines(tmp_path, b'{"a":1}\n{"a":\n{"a":')
    assert first == Line(1, {"a": 1})
    assert isinstance(middle, Fault)
    assert (middle.reason, middle.line, middle.torn) == ("bad_json", 2, False)
    assert isinstance(last, Fault)
    assert (last.reason, last.line, last.torn) == ("bad_json", 3, True)


def test_a_run_of_nul_bytes_fails_its_line_only(tmp_path: Path) -> None:
    _, nul, after = lines(tmp_path, b'{"a":1}\n{"a":' + b"\0" * 5000 + b'\n{"a":2}\n')
    assert nul == Fault("bad_json", "5000 NUL bytes", 2)
    assert after == Line(3, {"a": 2})


def test_invalid_utf8_is_bad_encoding_with_the_place(tmp_path: Path) -> None:
    bad, good = lines(tmp_path, b'{"a":"\xff"}\n{"a":"ok"}\n')
    assert isinstance(bad, Fault)
    assert (bad.reason, bad.line) == ("bad_encoding", 1)
    assert "byte 6" in bad.text
    assert good == Line(2, {"a": "ok"})


def test_a_long_line_is_refused_and_the_next_one_read(tmp_path: Path) -> None:
    data = b'{"a":"' + b"x" * 3_000_000 + b'"}\n{"a":1}\n'
    long, good = lines(tmp_path, data, limit=2_000_000)
    assert isinstance(long, Fault)
    assert (long.reason, long.line) == ("line_too_long", 1)
    assert "3000008 bytes" in long.text
    assert good == Line(2, {"a": 1})


def test_a_line_at_the_limit_is_read(tmp_path: Path) -> None:
    assert lines(tmp_path, b'{"a":1}\n', limit=7) == [Line(1, {"a": 1})]
    assert isinstance(lines(tmp_path, b'{"a":12}\n', limit=7)[0], Fault)


def test_a_byte_order_mark_is_stripped_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a":1}\n')
    reading = read_lines(path, tmp_path, LIMIT)
    assert list(reading) == [Line(1, {"a": 1})]
    assert reading.bom
    document = read_document(path, tmp_path, LIMIT)
    assert isinstance(document, Document)
    assert document.bom


@pytest.mark.parametrize(
    ("text", "expected", "count"),
    [
        (r'"\udcb2"', "\ufffd", 1),
        (r'"\ud83d"', "\ufffd", 1),
        (r'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600", 1),
        (r'"\\ud83d \ud800"', "\\ud83d \ufffd", 1),
        (r'"\uDE00\uD83D"', "\ufffd\ufffd", 2),
    ],
)
def test_lone_surrogates_are_replaced_and_counted(tmp_path: Path, text: str, expected: str, count: int) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text(text + "\n", "utf-8")
    reading = read_lines(path, tmp_path, LIMIT)
    assert list(reading) == [Line(1, expected, count)]
    assert reading.surrogates == count


def test_non_finite_numbers_are_read_as_what_they_are(tmp_path: Path) -> None:
    (line,) = lines(tmp_path, b'{"a":NaN,"b":-Infinity,"c":1e999,"d":123456789012345678901234567890}\n')
    assert isinstance(line, Line)
    assert math.isnan(line.value["a"])
    assert line.value["b"] == -math.inf
    assert line.value["c"] == math.inf
    assert line.value["d"] == 123456789012345678901234567890.0
    assert isinstance(line.value["d"], float)


@pytest.mark.parametrize("data", [b"[" * 100_000, b"9" * 6000 + b"x", b"{'a': 1}", b'{"a":1} {"b":2}'])
def test_what_is_no_json_is_a_fault(tmp_path: Path, data: bytes) -> None:
    (fault,) = lines(tmp_path, data + b"\n")
    assert isinstance(fault, Fault)
    assert (fault.reason, fault.line) == ("bad_json", 1)


class Row(msgspec.Struct):
    a: str


def test_a_typed_decoder_says_what_does_not_fit(tmp_path: Path) -> None:
    decode = msgspec.json.Decoder(Row).decode
    good, repaired, wrong = lines(tmp_path, b'{"a":"x"}\n{"a":"\\udcb2"}\n{"a":1}\n', decode=decode)
    assert good == Line(1, Row("x"))
    assert repaired == Line(2, Row("\ufffd"), 1)
    assert isinstance(wrong, Fault)
    assert (wrong.reason, wrong.line) == ("unknown_shape", 3)


def test_the_digest_is_of_the_files_bytes(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf{"a":1}\n\n{"a":2}'
    path = tmp_path / "f.jsonl"
    path.write_bytes(data)
    reading = read_lines(path, tmp_path, LIMIT)
    list(reading)
    assert reading.sha256 == hashlib.sha256(data).hexdigest()
    assert reading.size == len(data)


@given(
    rows=st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=30), max_size=3), max_size=12),
    block=st.integers(1, 40),
    last_newline=st.booleans(),
)
def test_block_boundaries_do_not_matter(rows: list[dict[str, str]], block: int, last_newline: bool) -> None:
    data = b"\n".join(json.dumps(row, ensure_ascii=False).encode() for row in rows)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "f.jsonl"
        path.write_bytes(data + b"\n" if last_newline and rows else data)
        patch.setattr(jsonl, "BLOCK_BYTES", block)
        reading = read_lines(path, Path(folder), LIMIT)
        read, places = [], []
        for line in reading:
            read.append(line)
            places.append((reading.offset, line.number))
        rest = [list(read_lines(path, Path(folder), LIMIT, start=place)) for place in places]
    assert read == [Line(number, row) for number, row in enumerate(rows, 1)]
    assert rest == [read[i:] for i in range(len(read))]


def test_links_pipes_and_ways_out_of_the_root_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.json").write_text('{"a":1}')
    (root / "link.json").symlink_to(outside / "secret.json")
    (root / "folder").symlink_to(outside)
    os.mkfifo(root / "pipe.json")
    (root / "real.json").write_text('{"a":1}')
    for name in ("link.json", "folder/secret.json", "pipe.json", "gone.json"):
        fault = read_document(root / name, root, LIMIT)
        assert isinstance(fault, Fault), name
        assert fault.reason == "unreadable_file", name
        assert str(tmp_path) not in fault.text
        (first,) = read_lines(root / name, root, LIMIT)
        assert isinstance(first, Fault), name
    assert isinstance(read_document(root / "real.json", root, LIMIT), Document)


def test_a_root_behind_a_link_is_read(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "a.json").write_text("[]")
    link = tmp_path / "link"
    link.symlink_to(real)
    assert isinstance(read_document(link / "a.json", link, LIMIT), Document)


def test_a_document_above_the_limit_stays_unread(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(["x" * 100]))
    fault = read_document(path, tmp_path, 50)
    assert isinstance(fault, Fault)
    assert fault.reason == "line_too_long"
    assert "104 bytes" in fault.text


@pytest.mark.parametrize("told", [0, 3, 20])
def test_a_document_is_read_to_its_end_whatever_size_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: int
) -> None:
    (tmp_path / "d.json").write_bytes(b'{"a": [1, 2]}')
    sizes = os.stat_result((0o100600, 0, 0, 1, 0, 0, told, 0, 0, 0))
    monkeypatch.setattr(jsonl.os, "fstat", lambda _: sizes)
    assert read_document(tmp_path / "d.json", tmp_path, LIMIT) == Document(
        {"a": [1, 2]}, hashlib.sha256(b'{"a": [1, 2]}').hexdigest(), 13
    )
