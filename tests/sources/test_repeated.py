"""What repeats of a capture's requests is put aside, and everything read of it is what whole lines say."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_flywheel.sources.capture_record import DECODER, Record
from trace_flywheel.sources.repeated import _MARK, STEMS, GoesOn, Repeating


def line(messages: str, before: str = "", behind: str = "", top: str = "") -> bytes:
    return f'{{{top}"request":{{"body":{{{before}"messages":{messages}{behind}}}}}}}'.encode()


def seen(*lines: bytes) -> list[GoesOn | None]:
    """What each line goes on with, where all of them say what they say by themselves."""
    data = b"\n".join(lines)
    found = Repeating().decode_lines(data)
    assert [plain(record) for record, _ in found] == [plain(DECODER.decode(each)) for each in lines]
    return [goes_on for _, goes_on in found]


def plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    return bytes(value) if isinstance(value, msgspec.Raw) else value


def test_a_request_goes_on_with_the_one_that_it_begins_with() -> None:
    assert seen(line('["a"]'), line('["a",{"b":[1]},"c"]'), line('["a",{"b":[1]},"c"]'), line('["x"]')) == [
        None,
        GoesOn(1, b'[{"b":[1]},"c"]'),
        GoesOn(2, b"[]"),
        None,
    ]
    assert seen(line('["a" ]', "", " "), line('["a" , "b" ]', "", "\t")) == [None, GoesOn(1, b'["b" ]')]
    spaced = [b'{"request": {"body": {"messages": ["a"]}}}', b'{"request": {"body": {"messages": ["a", "b"]}}}']
    assert seen(*spaced) == [None, GoesOn(1, b'["b"]')]
    assert seen(*spaced, line('["a","b"]'))[2] is None  # other blanks: the same list, and not the same bytes


def test_calls_of_helpers_between_do_not_hide_a_conversation() -> None:
    helpers = [line(f'["h{i}"]') for i in range(STEMS)]
    assert seen(line('["a"]'), *helpers[1:], line('["a",1]'))[-1] == GoesOn(1, b"[1]")
    assert seen(line('["a"]'), *helpers, line('["a",1]'))[-1] is None
    assert seen(line('["a"]'), line('["h"]'), line('["a",1]'), line('["h",2]'))[2:] == [
        GoesOn(1, b"[1]"),
        GoesOn(2, b"[2]"),
    ]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(line('["a","b"]', top='"messages":["a","b"],'), id="first elsewhere"),
        pytest.param(line('["a","b"]', '"messages":["a","b"],'), id="twice, the same"),
        pytest.param(line('["c"]', '"messages":["a","b"],'), id="twice, the last one counts"),
        pytest.param(line('["a"]', behind=',"messages":null'), id="twice, nothing in the end"),
        pytest.param(line("[1.5]"), id="a number goes on"),
        pytest.param(line('"x"', '"model":"\\"messages\\":[\\"a\\"]",'), id="in a text"),
        pytest.param(b'{"metadata":{"messages":["a"]}}', id="no request"),
        pytest.param(b'{"request":{"messages":["a","b"]}}', id="no body"),
        pytest.param(line('["a","b"]', top='"metadata":{"call_type":"pass_through_endpoint"},'), id="passed through"),
    ],
)
def test_wherever_the_key_stands_a_line_says_what_it_says(other: bytes) -> None:
    for first in (line('["a"]'), line("[1]"), line("[]"), line("[ ]"), line('{"a":[1]}'), line('"a"')):
        seen(first, other, line('["a","b",1]'))
        seen(other, first, other)


def test_what_was_passed_through_is_nobodys_beginning() -> None:
    passed = line('["a"]', top='"metadata":{"call_type":"pass_through_endpoint"},')
    assert seen(passed, line('["a",1]'), line('["a",1,2]')) == [None, None, GoesOn(2, b"[2]")]


@pytest.mark.parametrize(
    "bad",
    [
        line('["a",]'),
        line('["a" "b"]'),
        line('["a"x]'),
        line('["a"'),
        line('["a","b"]', behind=',"tools":'),
        line('["a","\\q"]'),
        line('["a",NaN]'),
        b'{"request":"messages":["a"]}',
    ],
)
def test_a_fault_behind_what_repeats_is_found(bad: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        DECODER.decode(bad)
    with pytest.raises(msgspec.DecodeError):
        Repeating().decode_lines(line('["a"]') + b"\n" + bad)


def test_no_input_can_hold_the_mark() -> None:
    assert len(_MARK) == 35  # 128 bits that every process makes up
    seen(line('["a"]'), line('["b","a"]'), line('["a","a"]'))


ITEMS = st.sampled_from(
    ['"a"', '"]"', '"\\"messages\\":["', '{"role":"user","content":"é"}', "1", "[]", '{"messages":[1]}']
)
LISTS = st.lists(ITEMS, max_size=4).map(",".join)
LINES = st.builds(
    lambda items, before, behind, top: line(f"[{items}]", before, behind, top),
    LISTS,
    st.sampled_from(["", '"model":"m",', '"messages":[1],', '"x":{"messages":["a"]},']),
    st.sampled_from(["", ',"tools":[{"messages":[1]}]', ',"messages":[1,2]', " "]),
    st.sampled_from(["", '"messages":["a"],', '"metadata":{"messages":["a",1]},']),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=6))
def test_any_lines_say_what_they_say_by_themselves(lines: list[bytes]) -> None:
    for number, goes_on in enumerate(seen(*lines)):
        if goes_on is not None:
            record: Record = DECODER.decode(lines[number])
            before: Record = DECODER.decode(lines[goes_on.line - 1])
            lists = [
                json.loads(bytes(r.request.body.messages)) for r in (before, record) if r.request and r.request.body
            ]
            assert lists[1] == lists[0] + json.loads(goes_on.added)
