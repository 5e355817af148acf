"""Text that would become far more than its bytes is refused by the number of its values, before it is decoded."""

import json
import time
from pathlib import Path

import orjson
import pytest

from trace_flywheel.sources import arrays, crowded
from trace_flywheel.sources.arrays import read_elements
from trace_flywheel.sources.crowded import MOST_VALUES, values_beyond
from trace_flywheel.sources.jsonl import Document, Fault, read_document, read_lines


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowded, "MOST_VALUES", 10)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[1,2,3,4,5,6,7,8,9,0]", 0),  # nine commas and a bracket
        ("[1,2,3,4,5,6,7,8,9,0,1]", 11),
        ('{"a":[],"b":[],"c":[],"d":[],"e":[],"f":[]}', 12),
        ('["a,b,c,d,e,f","g,h,i,j,k,l"]', 0),  # five in each string
        ('["a,b,c,d,e,f,g,h,i,j,k,l"]', 11),
        ('{"arguments":"[[],[],[],[],[],[]]"}', 12),
        ('["quoted \\" , and \\\\",",,,,,,,,,"]', 0),
        (" " * 30, 0),
    ],
)
def test_values_outside_of_strings_and_in_each_of_them(text: str, found: int) -> None:
    assert values_beyond(text.encode()) == found


@pytest.mark.usefixtures("few")
def test_a_string_that_never_ends_takes_no_longer_than_its_length() -> None:
    started = time.process_time()
    values_beyond(b"[" * 20 + b'"' + b"ab," * 300_000)
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
    assert fault.text == "40 values in one line or document; the limit is 2000000"
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


def test_what_conversations_hold_is_far_below_the_limit() -> None:
    table = "\n".join(",".join(map(str, range(20))) for _ in range(90_000))  # of 5 MB, as a tool might give it
    message = {"role": "tool", "tool_call_id": "c", "content": table}
    assert values_beyond(orjson.dumps({"messages": [message] * 8})) == 0
    assert values_beyond(b"[" + b"[]," * MOST_VALUES + b"[]]") == 2 * MOST_VALUES + 2
