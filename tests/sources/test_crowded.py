"""Text that would become far more than its bytes is refused before it is decoded, by its lists and objects."""

import json
import time
from pathlib import Path

import pytest

from trace_flywheel.sources import arrays, crowded
from trace_flywheel.sources.arrays import read_elements
from trace_flywheel.sources.crowded import MOST, nested_beyond
from trace_flywheel.sources.jsonl import Document, Fault, read_document, read_lines


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowded, "MOST", 10)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[[],[],[],[],[],[],[],[],[]]", 0),  # ten
        ("[[],[],[],[],[],[],[],[],[],[]]", 11),
        ('{"a":{"b":[[],[],[],[],[],[],[],[],[]]}}', 12),
        ("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", 0),
        ('["[[[[[","[[[[[","{{{{{"]', 0),  # five in each string
        ('["[{[{[{[{[{[{"]', 12),
        ('{"arguments":"[[],[],[],[],[],[],[],[],[],[],[]]"}', 12),
        ('["quoted \\" [ and \\\\",[[[[[[[[[]]]]]]]]]]', 0),
        (" " * 30, 0),
    ],
)
def test_lists_and_objects_outside_of_strings_and_in_each_of_them(text: str, found: int) -> None:
    assert nested_beyond(text.encode()) == found


@pytest.mark.usefixtures("few")
def test_a_string_that_never_ends_takes_no_longer_than_its_length() -> None:
    started = time.process_time()
    nested_beyond(b"[" * 20 + b'"' + b"ab[" * 300_000)
    assert time.process_time() - started < 5


@pytest.mark.usefixtures("few")
def test_a_line_a_document_and_an_element_are_refused_and_others_read(tmp_path: Path) -> None:
    crowd, row = json.dumps([[]] * 20), json.dumps({"a": 1})
    lines = tmp_path / "lines.jsonl"
    lines.write_text(f"{row}\n{crowd}\n{row}\n")
    good, fault, last = read_lines(lines, tmp_path, 1_000)
    assert (good.value, last.value) == ({"a": 1}, {"a": 1})
    assert isinstance(fault, Fault)
    assert (fault.reason, fault.line) == ("line_too_long", 2)
    assert fault.text == "21 lists and objects in one line or document; the limit is 1500000"
    document = tmp_path / "document.json"
    document.write_text(crowd)
    refused = read_document(document, tmp_path, 1_000)
    assert isinstance(refused, Fault)
    assert refused.reason == "line_too_long"
    document.write_text(row)
    assert isinstance(read_document(document, tmp_path, 1_000), Document)
    document.write_text(f"[{row}, {crowd}, {row}]")
    told = list(read_elements(document, tmp_path, 1_000))
    assert [one.reason if isinstance(one, Fault) else one.value for one in told] == [
        {"a": 1},
        "line_too_long",
        {"a": 1},
    ]


@pytest.mark.usefixtures("few")
def test_a_long_element_is_refused_before_it_is_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "BLOCK_BYTES", 16)
    document = tmp_path / "document.json"
    document.write_text(f'[{{"a": {json.dumps([[]] * 200)}}}]')
    (told,) = read_elements(document, tmp_path, 1_000_000)
    assert isinstance(told, Fault)
    assert told.text.startswith("row 1 has about ")


def test_what_recordings_hold_is_not_refused() -> None:
    """Tokens by the million with a log-probability each, and those of a long answer with the twenty likeliest."""
    tokens = b'{"token_ids":[' + b"101," * 2_000_000 + b'1],"logprobs":[' + b"-0.25," * 2_000_000 + b"0]}"
    assert nested_beyond(tokens) == 0
    likely = b",".join([b'{"token":"ab","logprob":-0.5,"bytes":[97,98]}'] * 20)
    told = b'{"token":"ab","logprob":-0.5,"bytes":[97,98],"top_logprobs":[' + likely + b"]}"
    assert nested_beyond(b'{"content":[' + b",".join([told] * 30_000) + b"]}") == 0
    assert nested_beyond(b"[" + b"[]," * MOST + b"[]]") == MOST + 2
