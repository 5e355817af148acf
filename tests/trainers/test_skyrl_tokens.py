"""skyrl-tokens: one row of a conversation's token ids, masked call by call; what is not of training grade says why."""

import msgspec
import pytest

from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Exchange, Rollout, Source
from trace_flywheel.trainers.candidates import Choice, candidates
from trace_flywheel.trainers.registry import layout

TOKENS = layout("skyrl-tokens")
PLAN = (([1, 2, 3], [10, 11]), ([1, 2, 3, 10, 11, 20], [30]), ([1, 2, 3, 10, 11, 20, 30, 40], [50, 51]))


def capture(prompt, answer, **values):
    first = {"index": 0, "token_ids": answer, "logprobs": [-0.5] * len(answer)} | values
    return {"prompt_token_ids": prompt, "completions": [first]}


def rollout(plan=PLAN, masked=()):
    messages = []
    for number in range(len(plan)):
        messages += [Message("user", f"q{number}"), Message("assistant", f"a{number}", train_on=number not in masked)]
    calls = tuple(
        Exchange(number, status=200, context=2 * number + 1, token_capture=capture(*tokens))
        for number, tokens in enumerate(plan)
    )
    source = Source("benchflow", "t/trajectory/llm_trajectory.jsonl", "ab")
    return Rollout("jobs/a", "t__1", "t", source, tuple(messages), exchanges=calls, reward=1.0)


def rows(one, **choice):
    return [TOKENS.candidate_row(one, candidate, "") for candidate in candidates(one, Choice(**choice))]


def test_a_trial_is_one_row_of_all_its_tokens():
    assert rows(rollout()) == [
        {
            "input_ids": [1, 2, 3, 10, 11, 20, 30, 40, 50, 51],
            "loss_mask": [0, 0, 0, 1, 1, 0, 1, 0, 1, 1],
            "task_id": "t",
            "reward": 1.0,
            "exchange_index": 2,
        }
    ]


def test_a_masked_turn_is_context_in_its_place():
    (row,) = rows(rollout(masked=(1,)))
    assert row["loss_mask"] == [0, 0, 0, 1, 1, 0, 0, 0, 1, 1]
    assert list(TOKENS.validate(row)) == []


def test_exchange_mode_trains_each_answer_once():
    made = rows(rollout(), row_mode="exchange")
    assert [row["loss_mask"] for row in made] == [[0, 0, 0, 1, 1], [0] * 6 + [1], [0] * 8 + [1, 1]]


def test_a_failed_call_is_no_part_of_it():
    one = rollout()
    failed = Exchange(3, status=429, context=None, messages=(Message("user", "q"),))
    assert rows(msgspec.structs.replace(one, exchanges=(*one.exchanges, failed))) == rows(one)


@pytest.mark.parametrize(
    ("number", "tokens", "fault"),
    [
        (1, {}, "call 1 has no token ids of its prompt"),
        (1, {"prompt_token_ids": [1]}, "call 1 has no token ids of its answer"),
        (2, capture([1], []), "call 2 has no token ids of its answer"),
        (2, capture(*PLAN[2], logprobs=[-0.5]), "call 2 has no logprob for each token of its answer"),
        (1, capture([1, 2, 3, 10, 99, 20], [30]), "the prompt of call 1 does not extend call 0"),
    ],
)
def test_what_is_not_of_training_grade_says_why(number, tokens, fault):
    one = rollout()
    calls = list(one.exchanges)
    calls[number] = msgspec.structs.replace(calls[number], token_capture=tokens)
    (row,) = rows(msgspec.structs.replace(one, exchanges=tuple(calls)))
    assert list(TOKENS.validate(row)) == [f"not of training grade: {fault}"]


def test_a_rollout_without_recorded_calls_says_so():
    (row,) = rows(msgspec.structs.replace(rollout(), exchanges=()))
    assert list(TOKENS.validate(row)) == ["not of training grade: no call was recorded"]


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"input_ids": [1, 2], "loss_mask": [1]}, "loss_mask: 1 values for 2 tokens"),
        ({"input_ids": [1, 2], "loss_mask": [0, 0]}, "loss_mask: no token to train on"),
        ({"input_ids": [1, 2], "loss_mask": [0, 2]}, "loss_mask[1]: must be one of [0, 1]"),
        ({"input_ids": [], "loss_mask": []}, "input_ids: must not be empty"),
    ],
)
def test_faults_of_a_row(row, fault):
    assert list(TOKENS.validate(row)) == [fault]
