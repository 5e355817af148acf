"""Token summaries and segments over hand-made calls: every break, drop and retry has its name."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.flow.tokens.account import summary
from trace_flywheel.flow.tokens.calls import Choice, TokenCall, token_digest
from trace_flywheel.flow.tokens.segments import account_of, segment_digest, sequences


def call(index, prompt, ids, logprobs=None, **values):
    logprobs = [-0.5] * len(ids or ()) if logprobs is None else logprobs
    values = {"tools": ("bash",), "captured": True, "provider": "vllm", **values}
    return TokenCall(index, prompt=prompt, choice=Choice(ids, logprobs), **values)


GOOD = [call(0, [1, 2], [10]), call(1, [1, 2, 10, 3], [11, 12]), call(2, [1, 2, 10, 3, 11, 12, 4], [13])]


def test_a_token_in_token_out_conversation_is_training_grade():
    told = summary(GOOD)
    assert told["prefix"] == {"pairs": 2, "extends_previous_call": 2, "breaks": []}
    assert (told["calls"], told["captured_calls"], told["complete_calls"], told["path"]) == (3, 3, 3, "vllm")
    assert told["training_grade"]


def test_its_sequence_masks_what_the_environment_added():
    (merged,) = sequences(account_of(GOOD))
    assert merged["prompt_ids"] == [1, 2]
    assert merged["completion_ids"] == [10, 3, 11, 12, 4, 13]
    assert merged["completion_mask"] == [1, 0, 1, 1, 0, 1]
    assert merged["completion_logprobs"] == [-0.5, 0.0, -0.5, -0.5, 0.0, -0.5]


def test_one_rewritten_token_is_a_break_and_no_sequence():
    calls = [GOOD[0], call(1, [1, 2, 99, 3], [11])]
    told = summary(calls)
    assert told["prefix"]["breaks"] == [1]
    assert not told["training_grade"]
    assert sequences(account_of(calls)) is None


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [([1, 2, 99, 3], "rerender"), ([1, 7, 10, 3], "compaction"), ([5], "compaction")],
    ids=["sampled turn rewritten", "history rewritten", "history shorter"],
)
def test_a_break_says_where_the_prompt_departs(prompt, reason):
    first, second = account_of([GOOD[0], call(1, prompt, [11])]).segments
    assert first.start is None
    assert second.start == {"reason": reason, "call": 0}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (call(1, None, [11]), "prompt_token_ids:missing"),
        (call(1, [1], None), "completion_token_ids:missing"),
        (call(1, [1], [11, 12], [-0.5]), "logprobs:length_mismatch"),
        (call(1, [1], [11], [None]), "logprobs:not_numeric"),
        (call(1, [1], [11], unavailable={"logprobs": {"reason": "not_returned"}}), "logprobs:not_returned"),
        (TokenCall(1, tools=("bash",)), "no_token_capture"),
        (TokenCall(1, tools=("bash",), captured=True), "no_choices"),
    ],
)
def test_an_unusable_call_is_dropped_by_name_and_splits_the_span(bad, reason):
    account = account_of([GOOD[0], bad, GOOD[2]])
    assert account.dropped == [{"call": 1, "reason": reason}]
    assert [s.calls for s in account.segments] == [[0], [2]]
    assert account.segments[1].start == {"reason": "after_dropped_call", "call": 1}
    assert not summary([GOOD[0], bad, GOOD[2]])["training_grade"]


def test_a_length_mismatch_is_counted_as_missing_logprobs():
    assert summary([call(0, [1], [2, 3], [-0.5])])["unavailable"] == {"logprobs:length_mismatch": 1}


def test_calls_without_tools_are_helpers_of_their_own_where_others_have_some():
    calls = [*GOOD, call(3, [7], [8], tools=()), call(4, [7], [9], tools=())]
    assert [(t["kind"], t["calls"]) for t in summary(calls)["threads"]] == [
        ("agent", [0, 1, 2]),
        ("helper", [3]),
        ("helper", [4]),
    ]


def test_no_tools_at_all_is_one_chat():
    calls = [call(0, [1], [2], tools=()), call(1, [1, 2, 3], [4], tools=())]
    assert [(t["kind"], t["calls"]) for t in account_of(calls).threads] == [("chat", [0, 1])]
    assert summary(calls)["training_grade"]


def test_segments_know_sub_agents_titles_and_compaction():
    calls = [
        call(0, [1], [2], tools=(), purpose="title"),
        call(1, [1], [2], tools=("Agent", "Bash")),
        call(2, [5], [6], tools=("Read",)),
        call(3, [8], [9], tools=(), purpose="compaction"),
        call(4, [1, 2, 3], [4], tools=("Agent", "Bash")),
    ]
    assert [(t["kind"], t["calls"]) for t in account_of(calls).threads] == [
        ("helper", [0]),
        ("agent", [1, 4]),
        ("subagent", [2]),
        ("compaction", [3]),
    ]


def test_a_failed_call_has_no_thread_and_no_segment():
    account = account_of([TokenCall(0, failed=True, retried_by=1), *GOOD[1:]])
    assert 0 not in account.kinds
    assert account.dropped == []


def test_nothing_recorded_is_not_training_grade():
    assert not summary([])["training_grade"]


def test_routing_says_how_long_the_call_made_the_sequence():
    choice = Choice([10], [-0.5], {"experts": [3]})
    (segment,) = account_of([TokenCall(0, captured=True, prompt=[1, 2], choice=choice)]).segments
    assert segment.routing == [{"call": 0, "sequence_length": 3, "experts": [3]}]


def test_digests_are_over_compact_json_in_a_fixed_order():
    text = '{"prompt_token_ids":[1],"completions":[{"index":0,"token_ids":[2],"logprobs":[-0.5]}]}'
    assert token_digest([1], Choice([2], [-0.5])) == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    (segment,) = account_of(GOOD[:1]).segments
    lists = {"prompt_ids": [1, 2], "completion_ids": [10], "action_mask": [1], "logprobs": [-0.5]}
    compact = json.dumps(lists, separators=(",", ":")).encode()
    assert segment_digest(segment) == f"sha256:{hashlib.sha256(compact).hexdigest()}"


@st.composite
def histories(draw):
    """Calls of one agent: each prompt goes on from the last, is rewritten, or cannot be used."""
    calls, known = [], [1]
    for index in range(draw(st.integers(1, 8))):
        how = draw(st.sampled_from(["extends", "rewritten", "unusable"]))
        ids = draw(st.lists(st.integers(10, 20), max_size=3))
        prompt = [*known, 5] if how != "rewritten" else draw(st.lists(st.integers(1, 4), max_size=4))
        calls.append(call(index, None if how == "unusable" else prompt, ids))
        known = [*prompt, *ids] if how != "unusable" else known
    return calls


@given(histories())
def test_every_sampled_token_is_in_one_segment_or_its_call_is_named(calls):
    account = account_of(calls)
    inside = [index for segment in account.segments for index in segment.calls]
    assert sorted([*inside, *(drop["call"] for drop in account.dropped)]) == [c.index for c in calls]
    for segment in account.segments:
        assert len(segment.completion_ids) == len(segment.action_mask) == len(segment.logprobs)
        assert sum(segment.action_mask) == sum(len(calls[i].choice.token_ids) for i in segment.calls)
        whole = [*segment.prompt_ids, *segment.completion_ids]
        for span in segment.spans:
            sampled = segment.completion_ids[span["offset"] : span["offset"] + span["length"]]
            assert sampled == calls[span["call"]].choice.token_ids
            prompt = calls[span["call"]].prompt
            assert whole[: len(prompt)] == prompt
    assert summary(calls)["training_grade"] == (sequences(account) is not None and not account.dropped)
