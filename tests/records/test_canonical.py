"""Identity is content: the spelling of a number, a key order or a Unicode form never makes a second row."""

import json
import math

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.records.canonical import canonical_arguments, canonical_json, canonical_value, content_id, folded
from trace_flywheel.records.message import has_only_text, text_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def test_canonical_bytes_are_written_down() -> None:
    assert canonical_json({"b": [1.0, None, True], "a": "e\u0301"}) == '{"a":"é","b":[1,null,true]}'.encode()
    assert canonical_json(math.nan) == b"null"
    assert content_id({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad808"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ('{"b": 5000, "a": 1}', '{"a":1.0,"b":5000.0}'),
        ("", "{}"),
        ("null", "{}"),
        ('{"q": "e\\u0301"}', '{"q":"é"}'),
    ],
)
def test_arguments_in_two_spellings_are_one(left: str, right: str) -> None:
    assert canonical_arguments(left) == canonical_arguments(right)


def test_broken_arguments_stay_as_they_are() -> None:
    assert canonical_arguments('{"a": ') == '{"a": '


@given(JSON)
def test_canonical_json_is_strict_and_a_fixed_point(value: object) -> None:
    data = canonical_json(value)
    assert canonical_json(json.loads(data)) == data


def test_folded_is_case_and_white_space_blind() -> None:
    assert folded("  Straße\n\tIS ") == "strasse is"


def test_text_of_joins_parts_in_order_and_says_when_it_loses_something() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "b"}]
    assert text_of(parts) == "a\nb"
    assert (has_only_text(parts), has_only_text(parts[:1]), has_only_text(None)) == (False, True, True)


@given(JSON)
def test_the_short_way_gives_the_bytes_of_the_long_one(value: object) -> None:
    assert canonical_json(value) == orjson.dumps(canonical_value(value), option=orjson.OPT_SORT_KEYS)
