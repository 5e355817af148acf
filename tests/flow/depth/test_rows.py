"""What a row's prompt is, whose row it is, and files that are none."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.curation.tgfr import Options, train
from trace_flywheel.flow.depth.rows import conversation_of, id_of, model_of, owner_of, prompt_of, rows_of
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.message import Message, ToolCall

CHAT = {
    "messages": [
        {"role": "system", "content": "be terse"},
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "second"}]},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "after the target"},
    ]
}
SAID = [("system", "s"), ("user", " "), ("user", "the task"), ("user", "more")]
TASK = {"messages": [{"role": role, "content": text} for role, text in SAID]}
BLANK = {"messages": [{"role": "user", "content": " "}, {"role": "assistant", "content": "a"}]}


@pytest.mark.parametrize(
    ("row", "field", "turn", "prompt"),
    [
        (CHAT, "messages", "last", "second"),
        (CHAT, "messages", "first", "first"),
        (TASK, "messages", "first", "the task"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages", "first", ""),
        ({"prompt": "p", "text": "t"}, "messages", "last", "p"),
        ({"text": "t"}, "messages", "last", "t"),
        ({"prompt": [{"role": "user", "content": "in a prompt list"}]}, "messages", "last", "in a prompt list"),
        ({"question": "q", **CHAT}, "question", "last", "q"),
        (CHAT, "user", "last", ""),
        ({"messages": []}, "messages", "last", ""),
        (BLANK, "messages", "last", ""),
        ({"messages": "none", "prompt": None}, "messages", "last", ""),
    ],
)
def test_the_prompt(row: dict[str, Any], field: str, turn: Any, prompt: str) -> None:
    assert prompt_of(row, field, turn) == prompt


def test_calls_of_both_shapes() -> None:
    chat = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "a", "arguments": {"n": 1}}}]}
    recorded = {"role": "assistant", "content": "x", "tool_call": {"name": "b", "arguments_json": "{}"}}
    assert conversation_of({"messages": [chat, recorded, 5]}) == [
        Message("assistant", "", tool_calls=(ToolCall("", "a", '{"n":1}'),)),
        Message("assistant", "x", tool_calls=(ToolCall("", "b", "{}"),)),
    ]


def test_owners_and_ids() -> None:
    assert owner_of({"rollout_id": "r"}, 3) == "r"
    assert owner_of({"trace_id": "t"}, 3) == "t"
    assert owner_of({}, 3) == "row 3"
    assert id_of({"row_hash": "h"}) == "h"
    assert id_of({"a": 1.0}) == id_of({"a": 1})


def test_lines_keep_their_bytes_and_crlf_is_no_trap(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"b": 1,  "a": 2}\r\n\r\n{"c": 3}')
    assert [(row.number, row.data) for row in rows_of(path)] == [(1, b'{"b": 1,  "a": 2}'), (3, b'{"c": 3}')]


@pytest.mark.parametrize(
    ("text", "says"), [("{}\n[1]\n", ":2: a row is"), ("{}\n{\n", ":2: bad_json"), (None, "no such file")]
)
def test_a_line_that_is_no_row(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "rows.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(FlywheelError, match=says):
        list(rows_of(path))


def test_models_by_their_path(tmp_path: Path) -> None:
    prompts = ["one", "two", "three", "four"]
    model, _ = train(prompts, ["single", "multi", "comparison", "other"], Options(vocab=1024))
    (tmp_path / "m.tgfr").write_bytes(model.encoded())
    assert model_of(tmp_path / "m.tgfr").label(prompts)[0] == model.label(prompts)[0]
    (tmp_path / "m.tgfr").write_bytes(b"TGFR")
    with pytest.raises(FlywheelError, match="cannot be used as a classifier"):
        model_of(tmp_path / "m.tgfr")
    (tmp_path / "depth.json").write_text(json.dumps({"features": "other"}))
    with pytest.raises(FlywheelError, match="train it again"):
        model_of(tmp_path)


def test_parts_that_are_no_objects_say_nothing() -> None:
    row = {"messages": [{"role": "user", "content": ["x", 1, {"type": "text", "text": "Who?"}]}, {"role": "assistant"}]}
    assert prompt_of(row, "messages", "last") == "Who?"
    assert [message.content for message in conversation_of(row)] == ["Who?", ""]


def test_a_model_that_is_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    folder, single = tmp_path / "model", tmp_path / "m.tgfr"
    folder.mkdir()
    os.mkfifo(folder / "depth.json")
    os.mkfifo(single)
    for path in (folder, single):
        with pytest.raises(FlywheelError, match="no regular file"):
            model_of(path)


@pytest.mark.parametrize("calls", [5, True, "ls", {"function": {"name": "ls"}}, [7, None, {"function": 3}]])
def test_calls_of_no_known_shape_are_none(calls: Any) -> None:
    row = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": calls}]}
    assert [message.tool_calls for message in conversation_of(row)] == [(), ()]
