"""A trainer file's faults, with their lines."""

from pathlib import Path

import orjson
import pytest

from trace_flywheel.flow.validate import FileCheck, has_calls
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.trainers.registry import layout

USER, SAYS = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}


def check(tmp_path: Path, *lines: bytes, name: str = "prime-sft") -> tuple[FileCheck, list[tuple[int, str]]]:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    found = FileCheck(file, layout(name))
    return found, [(fault.line, fault.text) for fault in found]


def row(**values: object) -> bytes:
    return orjson.dumps({"messages": [USER, SAYS], **values})


def test_a_sound_file(tmp_path):
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asks = orjson.dumps({"messages": [USER, {**SAYS, "tool_calls": [call]}], "tool_defs": [{"name": "f"}]})
    found, faults = check(tmp_path, row(), asks)
    assert (found.rows, found.rows_with_calls, faults) == (2, 1, [])


def test_all_faults_are_told_with_their_lines(tmp_path):
    found, faults = check(
        tmp_path,
        row(reward=1),
        b"",
        b'{"messages": [',
        b'{"messages": [], "reward": NaN}',
        row(gold="x", reward="1"),
        row(reward=1.0),
        b"[1]",
    )
    assert [line for line, _ in faults] == [3, 4, 5, 5, 6, 7]
    assert faults[1][1] == "bad_json: NaN and Infinity are no JSON numbers"
    assert faults[2][1] == "gold: is not allowed in this layout"
    assert faults[4][1] == "the same row stands in line 1"
    assert found.rows == 6


@pytest.mark.parametrize("name", ["prime-sft", "trl-sft", "messages"])
def test_a_row_nested_too_deeply_is_a_fault_of_its_line_and_the_next_is_checked(tmp_path, name):
    deep = row()[:-1] + b', "x": ' + b"[" * 1000 + b"]" * 1000 + b"}"
    found, faults = check(tmp_path, deep, b"{}", name=name)
    assert faults[0] == (1, "bad_json: nested too deeply")
    assert found.rows == 2
    assert {line for line, _ in faults[1:]} == {2}


def test_a_line_separator_inside_a_string_tears_nothing(tmp_path):
    messages = [{"role": "user", "content": "a\u2028b\u0085c"}, SAYS]
    assert check(tmp_path, orjson.dumps({"messages": messages}))[1] == []


def test_a_byte_order_mark(tmp_path):
    assert check(tmp_path, b"\xef\xbb\xbf" + row())[1] == [
        (1, "the file starts with a byte-order mark, which JSONL readers refuse")
    ]


def test_no_such_file(tmp_path):
    with pytest.raises(FlywheelError, match="no such file"):
        list(FileCheck(tmp_path / "none.jsonl", layout("prime-sft")))


@pytest.mark.parametrize(
    ("advantage", "normalisation", "fault"),
    [
        (0.99, "grpo", True),
        (0.7070067, "grpo", False),
        (1.0, "loo", False),
        (None, "grpo", False),
        (0.5, "dr-grpo", False),
        (1.0, "max-rl", False),
        (0.5, "max-rl", True),
    ],
)
def test_an_advantage_is_what_its_group_says(tmp_path, advantage, normalisation, fault):
    group = {"id": "task=a", "normalisation": normalisation, "scored": 2, "mean": 0.5, "std": 0.5**0.5, "eps": 1e-4}
    _, faults = check(tmp_path, row(reward=1.0, advantage=advantage, group=group))
    assert bool(faults) == fault


def test_an_advantage_without_a_group(tmp_path):
    assert check(tmp_path, row(reward=1.0, advantage=0.5))[1] == [
        (1, "advantage: there is no group that it belongs to")
    ]


def test_calls_are_found_in_every_layouts_lists():
    assert has_calls({"chosen": [{"tool_calls": [{}]}]})
    assert not has_calls({"messages": ["x"]})
    assert not has_calls(3)
