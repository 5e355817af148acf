import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.sources import arrays
from trace_flywheel.sources.arrays import opens_array, read_elements
from trace_flywheel.sources.jsonl import Fault, Line


def elements(data: bytes, block: int = 1 << 20, limit: int = 1_000_000) -> list[Line | Fault]:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "results.json"
        path.write_bytes(data)
        patch.setattr(arrays, "BLOCK_BYTES", block)
        return list(read_elements(path, Path(folder), limit))


values = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 99999) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(
    rows=st.lists(values, max_size=6), block=st.integers(1, 50), under=st.booleans(), indent=st.sampled_from([None, 1])
)
def test_any_array_in_any_blocks(rows: list[Any], block: int, under: bool, indent: int | None) -> None:
    data = json.dumps({"results": rows} if under else rows, ensure_ascii=False, indent=indent).encode()
    assert opens_array(data)
    assert elements(data, block) == [Line(number, row) for number, row in enumerate(rows, 1)]


def test_what_precedes_a_break_is_read() -> None:
    first, fault = elements(b'[{"a": 1}, {"a": nope, "text": "' + b"x" * 50 + b'"}, {"a": 3}]')
    assert first == Line(1, {"a": 1})
    assert fault == Fault("bad_json", "row 2: Expecting value")


def test_a_row_above_the_limit_ends_the_file() -> None:
    first, fault = elements(b'[{"a": 1}, {"a": "' + b"x" * 500 + b'"}]', block=64, limit=100)
    assert first == Line(1, {"a": 1})
    assert isinstance(fault, Fault)
    assert (fault.reason, "row 2" in fault.text) == ("line_too_long", True)


def test_numbers_beyond_json_and_lone_surrogates_are_read_as_in_lines() -> None:
    (row,) = elements(b'[{"r": NaN, "t": "\\udcb2"}]')
    assert isinstance(row, Line)
    assert str(row.value["r"]) == "nan"
    assert (row.value["t"], row.surrogates) == ("\ufffd", 1)


def test_bad_bytes_and_another_shape_are_faults() -> None:
    assert [getattr(f, "reason", None) for f in elements(b'["\xff"]')] == ["bad_encoding"]
    assert [getattr(f, "reason", None) for f in elements(b'{"a": 1}')] == ["unknown_shape"]
