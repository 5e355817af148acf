"""JSON in a string is taken apart and put together without touching anything else."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.redaction.jsontext import Leaf, leaves_of, node_of


def leaves(text: str) -> list[tuple[str, str, bool]]:
    return [(leaf.key, leaf.text, leaf.number) for leaf in node_of(text).leaves()]


def upper(leaf: Leaf) -> str:
    return leaf.text.upper()


def test_leaves_with_their_keys() -> None:
    text = '{"a": "x", "b": [1, "y", {"c": "z"}, "w"], "card": 4111111111111111, "n": -1.5e3, "s": null}'
    assert leaves(text) == [
        ("a", "x", False),
        ("b", "y", False),
        ("c", "z", False),
        ("b", "w", False),
        ("card", "4111111111111111", True),
    ]


def test_an_option_names_the_argument_behind_it() -> None:
    text = (
        '{"argv": ["run", "--api-key", "x", "y", "--a", "--bc", 5, "z"], "b": ["-token", {"c": "w"}, "--secret", "v"]}'
    )
    assert leaves(text) == [
        ("argv", "run", False),
        ("argv", "--api-key", False),
        ("api-key", "x", False),
        ("argv", "y", False),
        ("argv", "--a", False),
        ("argv", "--bc", False),
        ("argv", "z", False),
        ("b", "-token", False),
        ("c", "w", False),
        ("b", "--secret", False),
        ("b", "v", False),
    ]


def test_only_changed_literals_are_written_anew() -> None:
    text = ' { "a" : "x\\u0041",\n\t"A": "B", "n": 1.0e+5, "a": "C" , "e": "é" }'
    assert node_of(text).render(upper) == ' { "a" : "XA",\n\t"A": "B", "n": 1.0e+5, "a": "C" , "e": "É" }'


def test_ascii_documents_stay_ascii() -> None:
    assert node_of('{"a": "\\u00e9"}').render(upper) == '{"a": "\\u00c9"}'


def test_json_in_json_is_taken_apart_too() -> None:
    inner = json.dumps({"k": 'say "hi"'})
    text = json.dumps({"body": inner})
    assert leaves(text) == [("k", 'say "hi"', False)]
    assert json.loads(json.loads(node_of(text).render(upper))["body"]) == {"k": 'SAY "HI"'}


@pytest.mark.parametrize("text", ["plain", "{not json}", '{"a": 1} trailing', "[1, 2", "", "[INFO] started"])
def test_other_text_is_one_leaf(text: str) -> None:
    assert leaves(text) == [("", text, False)]


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert leaves('["\\ud800"]') == [("", "\ufffd", False)]


def test_not_a_number_is_left_as_it_stands() -> None:
    assert node_of('{"r": NaN, "t": "x"}').render(upper) == '{"r": NaN, "t": "X"}'


NAMES = st.sampled_from(["a", "name", "Value", "value", "key", "variable", "é", '"', "--x"])
TEXTS = st.sampled_from(
    ["", "x", "--api-key", "--secret", '{"name": "A", "value": "b"}', '["--pw", "c"]', '"q"', "\x1b\n"]
)
VALUES = st.recursive(
    TEXTS | st.booleans() | st.none() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(NAMES, inner, max_size=4)
        | st.dictionaries(NAMES, inner, max_size=2).map(json.dumps)
    ),
    max_leaves=15,
)


@given(st.dictionaries(NAMES, VALUES, max_size=4) | st.lists(VALUES, max_size=4))
def test_a_line_has_the_leaves_and_keys_of_its_text(value: Any) -> None:
    line = orjson.dumps(value)
    found, keys = leaves_of(line)
    assert [(leaf.key, leaf.text, leaf.number) for leaf in found] == leaves(line.decode())
    assert keys == node_of(line.decode()).key_texts()


@pytest.mark.parametrize(
    "line", [b'{"a":"x","a":"y"}', b'{"a": "x"}', b'{"n":123456789012345678901234567890}', b'{"a":"x']
)
def test_a_line_that_orjson_did_not_write_has_them_too(line: bytes) -> None:
    found, _ = leaves_of(line)
    assert [(leaf.key, leaf.text, leaf.number) for leaf in found] == leaves(line.decode())
