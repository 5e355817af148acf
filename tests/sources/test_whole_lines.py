import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trace_flywheel.sources import whole_lines
from trace_flywheel.sources.capture import Capture, read_capture
from trace_flywheel.sources.jsonl import Line, read_lines
from trace_flywheel.sources.whole_lines import read_whole

LIMIT = 10_000


class Record(msgspec.Struct):
    a: msgspec.Raw = msgspec.Raw(b"")


DECODER = msgspec.json.Decoder(Record)


def decoded(data: bytes) -> Any:
    data.decode()
    return DECODER.decode(data)


def whole(folder: Path, data: bytes) -> list[tuple[int, bytes]] | None:
    path = folder / "lines.jsonl"
    path.write_bytes(data)
    found = read_whole(path, folder, LIMIT, DECODER)
    return None if found is None else [(line.number, bytes(line.value.a)) for line in found]


def test_lines_come_with_their_numbers_and_the_digest_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes('{"a":[1,"é"]}\n{"a":{}}\n'.encode())
    found = read_whole(path, tmp_path, LIMIT, DECODER)
    assert found is not None
    assert [(line.number, bytes(line.value.a)) for line in found] == [(1, '[1,"é"]'.encode()), (2, b"{}")]
    assert found.sha256 == "de4a642ceea4fb7c111c692411135dedde364aaa3b63be59ccc919674e5ebfa4"
    assert whole(tmp_path, b'{"a":1}') == [(1, b"1")]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"a":1}\n{"a":', id="torn"),
        pytest.param(b'{"a":1}\n\n{"a":2}', id="a blank line"),
        pytest.param(b'{"a":1}\r\n{"a":2}', id="a blank behind"),
        pytest.param(b'\xef\xbb\xbf{"a":1}', id="byte-order mark"),
        pytest.param(b'{"a":"\xff"}', id="not UTF-8, where the decoder does not look"),
        pytest.param(b'{"a":NaN}', id="NaN"),
        pytest.param(b'{"a":1}{"a":2}', id="two on a line"),
        pytest.param(b'{"a":{}\n}', id="an object over two lines"),
        pytest.param(b'{"a":1,"b":{}\n,"c":1}{"a":2}', id="one over two lines, and one more: as many as lines"),
        pytest.param(b'{"a":[{}\n,{}]}{"a":2}', id="a list over two lines, and one more object"),
        pytest.param(b'{"a":"}\n{"}{"a":2}', id="a newline inside of a text, and one more object"),
        pytest.param(b'[1]\n{"a":1}', id="no object"),
        pytest.param(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}", id="nested deeply"),
        pytest.param(b'{"a":"' + b"x" * LIMIT + b'"}', id="above the limit"),
    ],
)
def test_what_is_not_plainly_whole_is_left_to_the_other_reader(tmp_path: Path, data: bytes) -> None:
    assert whole(tmp_path, data) is None


def test_a_link_and_a_missing_file_are_left_too(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b'{"a":1}')
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert read_whole(tmp_path / "link", tmp_path, LIMIT, DECODER) is None
    assert read_whole(tmp_path / "gone", tmp_path, LIMIT, DECODER) is None


PIECES = st.sampled_from(
    [
        *(b'{"a":1}', b'{"a":"x"}', b"{}", b"\n", b"\n", b" ", b"\r", b"{", b"}", b",", b"[", b"]", b"\xc3", b"\xa9"),
        *(b'"a":', b'"', b"\\ud800", b"NaN", b"1", b"\xef\xbb\xbf", b"\x00", b'{"a":{"b":[{}]}}'),
    ]
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PIECES, max_size=14))
def test_what_it_gives_is_what_the_other_reader_gives(tmp_path: Path, pieces: list[bytes]) -> None:
    found = whole(tmp_path, b"".join(pieces))
    if found is not None:
        lines = list(read_lines(tmp_path / "lines.jsonl", tmp_path, LIMIT, decoded))
        assert all(isinstance(line, Line) and not line.surrogates for line in lines)
        assert found == [(line.number, bytes(line.value.a)) for line in lines if isinstance(line, Line)]


TEXTS = st.text(st.sampled_from('a"\\\n\u2028é😀{}[],:'), max_size=8)
MESSAGES = st.lists(st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": TEXTS}), max_size=3)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(MESSAGES, min_size=1, max_size=5), st.sampled_from(["", "\n"]), st.booleans())
def test_a_capture_is_the_same_either_way(
    tmp_path: Path, requests: list[list[dict[str, str]]], end: str, ascii_only: bool
) -> None:
    path = tmp_path / "capture.jsonl"
    records = [{"request": {"body": {"messages": m}}, "response": {"status_code": 200, "body": {}}} for m in requests]
    path.write_text("\n".join(json.dumps(r, ensure_ascii=ascii_only) for r in records) + end)
    once = read_capture(path, tmp_path, 10**6)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(whole_lines, "WHOLE_BYTES", 0)
        streamed = read_capture(path, tmp_path, 10**6)
    assert isinstance(once, Capture)
    assert isinstance(streamed, Capture)
    assert once.sha256 == streamed.sha256
    told = [
        [(c.index, c.line, c.items, c.tools, c.status, bytes(c.response)) for c in x.calls] for x in (once, streamed)
    ]
    assert told[0] == told[1]
    assert [json.loads(c.items) for c in once.calls] == requests
