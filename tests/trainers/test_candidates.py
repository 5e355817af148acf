"""Which conversations become rows, and BenchFlow's window."""

import msgspec
import pytest

from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Exchange, Rollout, Source
from trace_flywheel.trainers.candidates import Choice, candidates, last_turn

SYSTEM, USER, SAYS = Message("system", "s"), Message("user", "q"), Message("assistant", "a")
NOTE = Message("user", "<system-reminder>\n12 tokens used\n</system-reminder>\n<system-reminder>x</system-reminder>")


def spelt(messages):
    return "".join(m.role[0] if m.content != NOTE.content else "n" for m in messages)


@pytest.mark.parametrize(
    ("messages", "window"),
    [
        ((SYSTEM, USER, SAYS), "ua"),
        ((SYSTEM, USER, SAYS, USER, SAYS), "ua"),
        ((SYSTEM, USER, SAYS, USER), "uau"),
        ((SYSTEM, SAYS), "sa"),
        ((USER, USER, SAYS), "ua"),
        ((USER, SAYS, SYSTEM, SAYS), "ua"),
        ((USER, SAYS, NOTE, SAYS), "uana"),
        ((), ""),
    ],
)
def test_the_window_starts_at_the_last_user_turn_that_was_answered(messages, window):
    assert spelt(last_turn(messages)) == window


def test_the_window_of_one_user_turn_that_is_a_late_system_note_counts_as_the_users():
    assert last_turn((USER, SAYS, SYSTEM, SAYS))[0] == Message("user", "s")


@pytest.fixture
def rollout():
    helper = (Message("user", "Title?"), Message("assistant", "Lanterns"))
    child = (Message("user", "Look."), Message("assistant", "Seen."))
    return Rollout(
        "r",
        "t",
        "task",
        Source("benchflow", "p", ""),
        (SYSTEM, USER, SAYS, USER, SAYS),
        exchanges=(
            Exchange(0, status=200, context=2, model="m"),
            Exchange(1, status=500, context=4),
            Exchange(2, "title", status=200, thread=1, messages=helper),
            Exchange(3, "subagent", status=200, thread=2, messages=child[:1] + child, spawned_by="call_1"),
            Exchange(4, "subagent", status=200, thread=2, messages=child, spawned_by="call_1"),
            Exchange(5, status=200, context=4),
        ),
        request_model="v4",
    )


def told(rollout, **choice):
    return [(c.exchange_index, c.purpose, spelt(c.messages)) for c in candidates(rollout, Choice(**choice))]


def test_a_trial_is_its_main_thread(rollout):
    assert told(rollout) == [(5, "agent", "suaua")]


def test_other_threads_come_as_their_last_call_left_them(rollout):
    assert told(rollout, helpers=True, subagents=True) == [
        (5, "agent", "suaua"),
        (2, "title", "ua"),
        (4, "subagent", "ua"),
    ]


def test_exchange_mode_is_every_successful_call_of_the_wanted_kinds(rollout):
    assert told(rollout, row_mode="exchange") == [(0, "agent", "sua"), (5, "agent", "suaua")]
    assert [i for i, *_ in told(rollout, row_mode="exchange", helpers=True, subagents=True)] == [0, 2, 3, 4, 5]


def test_the_model_is_the_calls_own_else_the_requests(rollout):
    assert [c.model for c in candidates(rollout, Choice("exchange"))] == ["m", "v4"]


def test_without_recorded_calls_the_index_is_the_readers(rollout):
    bare = msgspec.structs.replace(rollout, exchanges=(), metadata={"exchange_index": 7})
    assert told(bare) == [(7, "agent", "suaua")]
    assert told(bare, row_mode="exchange") == []
