"""Which turns are learned: step verdicts, corrections, placeholders, copied context."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.curation.masking import SupervisedRollout, supervised
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.message import Message, ToolCall
from trace_flywheel.records.rollout import Correction, Rollout, Source

USER = Message(role="user", content="Go on")


def said(text, **fields):
    return Message(role="assistant", content=text, **fields)


def rollout(*messages, **fields):
    source = Source("eval_run", "a/results.json", "0" * 64)
    return Rollout(run_id="root/a", trace_id="t", task_id="task", source=source, messages=messages, **fields)


def flags(row):
    return [m.train_on for m in row.messages if m.role == "assistant"]


def masked_call():
    return said(None, tool_calls=(ToolCall("c", "send", '{"key": "[REDACTED:github-token:1]"}'),))


def test_every_assistant_turn_trains_and_none_says_so():
    row = supervised(rollout(USER, said("a"), USER, said("b")))
    assert (flags(row), row.kind, row.masked_steps, row.transforms) == ([None, None], "sft", 0, ())


@pytest.mark.parametrize(
    ("verdicts", "expected", "masked"),
    [
        (("pass", "fail", "pass"), [True, False, True], 1),
        (("pass", "PASS", "ok"), [True, False, False], 2),
        (("fail", "fail", "fail"), [False] * 3, 3),
        (("pass", "pass", "pass"), [None] * 3, 0),
    ],
)
def test_step_verdicts_mask_and_the_turn_stays(verdicts, expected, masked):
    row = supervised(rollout(USER, said("a"), USER, said("b"), USER, said("c"), step_verdicts=verdicts))
    assert (flags(row), row.masked_steps, row.kind) == (expected, masked, "masked")
    assert [m.content for m in row.messages if m.role == "assistant"] == ["a", "b", "c"]
    assert row.transforms == (("masked",) if masked else ())


def test_a_verdict_too_few_or_too_many_is_refused():
    drop = supervised(rollout(USER, said("a"), USER, said("b"), step_verdicts=("pass",)))
    assert isinstance(drop, Drop)
    assert (drop.stage, drop.reason) == ("quality", "mask_mismatch")
    assert drop.evidence == {"step_verdicts": 1, "assistant_turns": 2}
    assert (drop.run_id, drop.trace_id, drop.task_id) == ("root/a", "t", "task")


def test_a_correction_replaces_the_last_turn_and_is_alone_supervised():
    wrong = said("bad", reasoning="guess", token_ids=(1,))
    row = supervised(rollout(USER, said("a"), USER, wrong, correction=Correction("good", "r"), redactions={"email": 1}))
    assert flags(row) == [False, True]
    assert row.messages[-1] == said("good", train_on=True)
    assert (row.kind, row.masked_steps, row.transforms) == ("correction", 0, ("redacted", "corrected"))


def test_the_named_turn_is_replaced():
    row = supervised(rollout(USER, said("a"), USER, said("b"), correction=Correction("good", turn=0)))
    assert flags(row) == [True, False]
    assert [m.content for m in row.messages] == ["Go on", "good", "Go on", "b"]


def test_a_single_corrected_turn_needs_no_mask():
    row = supervised(rollout(USER, said("bad"), correction=Correction("good")))
    assert flags(row) == [None]


CALLS = (
    USER,
    said("a"),
    USER,
    said(None, tool_calls=(ToolCall("c", "ls"),)),
    Message(role="tool", content="x", tool_call_id="c"),
)


def test_a_turn_with_calls_is_corrected_only_by_name():
    drop = supervised(rollout(*CALLS, correction=Correction("good")))
    assert isinstance(drop, Drop)
    assert drop.reason == "unpaired_calls"
    row = supervised(rollout(*CALLS, correction=Correction("good", turn=1)))
    assert [m.role for m in row.messages] == ["user", "assistant", "user", "assistant"]
    assert flags(row) == [False, True]


@pytest.mark.parametrize(
    ("messages", "correction", "reason"),
    [
        ((USER, said("a")), Correction("good", turn=1), "mask_mismatch"),
        ((USER, said("a")), Correction("good", turn=-1), "mask_mismatch"),
        ((USER, said("a")), Correction(" "), "empty_answer"),
        ((USER,), Correction("good"), "empty_answer"),
    ],
)
def test_a_correction_that_fits_nothing_is_refused(messages, correction, reason):
    drop = supervised(rollout(*messages, correction=correction))
    assert isinstance(drop, Drop)
    assert drop.reason == reason


def test_a_correction_wins_over_step_verdicts():
    row = supervised(rollout(USER, said("a"), correction=Correction("good"), step_verdicts=("fail", "fail")))
    assert row.kind == "correction"


@pytest.mark.parametrize(
    "turn",
    [
        said("use [REDACTED:github-token:1]"),
        said("fine", reasoning="the key is [REDACTED:aws-key:2]"),
        said([{"type": "text", "text": "mail [REDACTED:email:1]"}]),
        masked_call(),
    ],
)
def test_a_placeholder_is_no_target(turn):
    row = supervised(rollout(USER, said("a"), USER, turn, USER, said("b"), redactions={"x": 1}))
    assert flags(row) == [True, False, True]
    assert (row.kind, row.masked_steps, row.transforms) == ("masked", 1, ("redacted", "masked"))
    assert flags(supervised(rollout(USER, said("a"), USER, turn), "keep")) == [None, None]


def test_a_placeholder_in_a_users_turn_masks_nothing():
    row = supervised(rollout(Message(role="user", content="[REDACTED:email:1]"), said("a")))
    assert flags(row) == [None]


def test_foreign_marks_are_no_placeholders():
    assert flags(supervised(rollout(USER, said("***REDACTED***")))) == [None]


def test_copied_context_is_never_a_target():
    row = supervised(rollout(USER, said("a", train_on=False), USER, said("b"), step_verdicts=("pass", "pass")))
    assert flags(row) == [False, True]


def test_a_source_that_supervises_everything_agrees_with_one_that_says_nothing():
    stated = supervised(rollout(USER, said("a", train_on=True)))
    assert stated.messages == supervised(rollout(USER, said("a"))).messages


@given(st.lists(st.sampled_from(["pass", "fail", "unsure"]), min_size=1, max_size=8))
def test_masks_take_away_and_never_change_text(verdicts):
    messages = [m for i in range(len(verdicts)) for m in (USER, said(f"answer {i}"))]
    row = supervised(rollout(*messages, step_verdicts=tuple(verdicts)))
    assert isinstance(row, SupervisedRollout)
    assert [msgspec.structs.replace(m, train_on=None) for m in row.messages] == messages
    assert [flag is not False for flag in flags(row)] == [v == "pass" for v in verdicts]
    assert row.masked_steps == sum(v != "pass" for v in verdicts)
