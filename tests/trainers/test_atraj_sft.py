"""atraj-sft: what the original's trainer takes, and the two ways to cut a recording into rows."""

import pytest

from trace_flywheel.records.message import Message, ToolCall
from trace_flywheel.records.rows import Provenance, SftRow
from trace_flywheel.trainers.atraj_sft import (
    LAYOUT,
    answer_pairs,
    trajectory_messages,
    trajectory_targets,
    turns_of,
)


def said(*roles_and_texts):
    return [{"role": role, "content": text} for role, text in roles_and_texts]


def test_the_last_assistant_turn_before_the_next_user_answers():
    turns = said(
        ("assistant", "hi"), ("user", "a"), ("user", "b"), ("assistant", "1"), ("tool", "x"), ("assistant", "2")
    )
    assert list(answer_pairs(turns)) == [(1, None), (2, 5)]


def test_a_user_without_an_answer_at_the_end_is_told():
    assert list(answer_pairs(said(("user", "a"), ("assistant", "1"), ("user", "b")))) == [(0, 1), (2, None)]


def test_targets_say_something_as_text_or_as_ids():
    turns = [
        *said(("user", "q"), ("assistant", "  "), ("assistant", "a")),
        {"role": "assistant", "content": "", "output_ids": [7]},
    ]
    assert trajectory_targets(turns) == [2, 3]


def test_only_the_target_is_supervised_and_it_stands_last():
    turns = said(("user", "q"), ("assistant", "a"), ("user", "r"), ("assistant", "b"), ("user", "s"))
    messages = trajectory_messages(turns, 3)
    assert [m["supervise"] for m in messages] == [False, False, False, True]
    assert messages[-1]["content"] == "b"


def test_a_turn_keeps_its_recorded_text_ids_call_and_result():
    messages = (
        Message("user", "q", extra={"input_ids": (1, 2)}),
        Message(
            "assistant",
            None,
            tool_calls=(ToolCall("c", "sh", '{"a":1}'),),
            token_ids=(3,),
            extra={"recorded_content": '{"tool": "sh", "arguments": {"a": 1}}'},
        ),
        Message(
            "tool",
            '{"exit_code":1,"stderr":"e","stdout":"o","tool":"sh"}',
            tool_call_id="c",
            name="sh",
            extra={"duration_sec": 0.5},
        ),
    )
    assert turns_of(messages) == [
        {"role": "user", "content": "q", "input_ids": [1, 2]},
        {
            "role": "assistant",
            "content": '{"tool": "sh", "arguments": {"a": 1}}',
            "tool_call": {"name": "sh", "arguments_json": '{"a":1}'},
            "output_ids": [3],
        },
        {
            "role": "tool",
            "content": '{"exit_code":1,"stderr":"e","stdout":"o","tool":"sh"}',
            "tool_result": {"name": "sh", "stdout": "o", "stderr": "e", "exit_code": 1, "duration_sec": 0.5},
        },
    ]


def test_a_call_that_no_text_tells_is_written_in_the_recorders_protocol():
    call = Message("assistant", None, tool_calls=(ToolCall("c", "bash", '{"command": "ls"}'),))
    assert turns_of((call,))[0]["content"] == '{"tool":"bash","arguments":{"command": "ls"}}'


def test_a_dataset_row_becomes_one_row_per_supervised_turn(sft_row):
    rows = list(LAYOUT.sft_rows(sft_row))
    assert [row["messages"][-1]["content"] for row in rows] == [
        '{"tool":"bash","arguments":{"command": "ls  -l"}}',
        "It is 12.3.",
    ]
    assert not [fault for row in rows for fault in LAYOUT.validate(row)]
    assert all(row["task"] == "suite/half-life" and row["export"] == "trajectory" for row in rows)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ([], "messages: must be a list"),
        ({"messages": []}, "messages: must be a list with at least one"),
        ({"messages": said(("user", "q"))}, "no assistant message"),
        ({"messages": [{"role": "assistant", "content": None}]}, "messages[0]: content must be text"),
        ({"messages": [{"role": "user", "content": "q", "supervise": True}]}, "a user message cannot be supervised"),
        ({"messages": [{"role": "assistant", "content": "a", "output_ids": ["1"]}]}, "output_ids must be a list"),
    ],
)
def test_what_its_trainer_refuses(row, fault):
    assert any(fault in found for found in LAYOUT.validate(row))


def flagged(*flags):
    """A conversation in which every second message is an assistant's; None sets no flag."""
    roles = ("user", "assistant") * len(flags)
    return [
        {"role": role, "content": role} | ({} if flag is None else {"supervise": flag})
        for role, flag in zip(roles, flags, strict=False)
    ]


@pytest.mark.parametrize(
    ("export", "flags", "fault"),
    [
        (None, (None, None, None, None), None),
        (None, (False, True, False, True), None),
        (None, (None, True, None, None), None),
        (None, (False, False), "no message is supervised"),
        (None, (None, False), "no message is supervised"),
        ("trajectory", (False, False, False, True), None),
        ("trajectory", (None, None), "no message is supervised"),
        ("trajectory", (False, False), "no message is supervised"),
        ("trajectory", (False, True, False, True), "supervises its last message alone, this one [1, 3]"),
        ("trajectory", (False, True, False), "supervises its last message alone, this one [1]"),
    ],
)
def test_the_mask_names_the_target_and_nothing_else(export, flags, fault):
    row = {"messages": flagged(*flags)} | ({"export": export} if export else {})
    found = list(LAYOUT.validate(row))
    assert (found == []) == (fault is None)
    assert fault is None or fault in found[0]


def chatml(messages):
    """Text and mask, byte by byte, as a trainer makes them: the stop belongs to the turn that it ends."""
    text, mask = "", []
    for message in messages:
        head, body = f"<|im_start|>{message['role']}\n", message["content"] + "<|im_end|>"
        text += head + body + "\n"
        mask += [False] * len(head) + [message.get("supervise") is True] * len(body) + [False]
    return "".join(letter for letter, on in zip(text, mask, strict=True) if on)


def test_rendered_each_supervised_turn_is_learned_once_with_its_stop_and_nothing_else():
    messages = (
        Message("system", "s"),
        Message("user", "q"),
        Message("assistant", None, tool_calls=(ToolCall("c", "ls", "{}"),)),
        Message("tool", "x", tool_call_id="c", name="ls"),
        Message("assistant", "a guess", train_on=False),
        Message("user", "sure?"),
        Message("assistant", "it is x"),
    )
    rows = list(LAYOUT.sft_rows(SftRow("r", messages, (), Provenance("r", "masked", "t", "run", ("r1",)))))
    assert [list(LAYOUT.validate(row)) for row in rows] == [[], []]
    assert [chatml(row["messages"]) for row in rows] == ['{"tool":"ls","arguments":{}}<|im_end|>', "it is x<|im_end|>"]
