"""atraj-sft: what the original's trainer takes, and the two ways to cut a recording into rows."""

import pytest

from trace_flywheel.records.message import Message, ToolCall
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
