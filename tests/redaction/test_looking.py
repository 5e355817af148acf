"""What the detectors look at of data that is no text."""

from typing import Any

import pytest

from trace_flywheel.redaction.depth import LIMIT, DeepDataError
from trace_flywheel.redaction.looking import bytes_of


class Odd:
    def __str__(self) -> str:
        return "ann@contoso.com"


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ({"b": "é\n", "a": [1, 2.5, None, True]}, '{"b":"é\\n","a":[1,2.5,null,true]}'),
        ({1: {None: "x"}}, '{"1":{"null":"x"}}'),
        ({"a": Odd()}, '{"a":"ann@contoso.com"}'),
        ({"a": 4111111111111111111111}, '{"a": 4111111111111111111111}'),
        ({"a": "\ud800", "b": Odd()}, '{"a": "?", "b": "ann@contoso.com"}'),
        ([["[" * LIMIT]] * LIMIT, "[" + ",".join(['["' + "[" * LIMIT + '"]'] * LIMIT) + "]"),
        ("a\ud800", "a?"),
        (7, "7"),
    ],
)
def test_data_is_looked_at_as_json(value: Any, seen: str) -> None:
    assert bytes_of(value) == seen.encode()


@pytest.mark.parametrize("around", [LIMIT + 1, 250, 300, 2000])
@pytest.mark.parametrize("core", ["x", 2**70, Odd()])
def test_deep_data_is_refused(around: int, core: Any) -> None:
    deep: Any = core
    for _ in range(around):
        deep = [deep]
    with pytest.raises(DeepDataError):
        bytes_of(deep)


def test_data_at_the_limit_is_looked_at() -> None:
    deep: Any = "x"
    for _ in range(LIMIT):
        deep = {"a": deep}
    assert bytes_of(deep) == b'{"a":' * LIMIT + b'"x"' + b"}" * LIMIT
