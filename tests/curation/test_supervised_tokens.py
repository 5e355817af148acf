"""What a row's learned tokens are counted by."""

from typing import Any

import pytest

from trace_flywheel.curation.supervised_tokens import supervised_tokens

USER = {"role": "user", "content": "a long question that nobody learns"}


@pytest.mark.parametrize(
    ("turns", "tokens"),
    [
        ([{"role": "assistant", "content": "eight by", "output_ids": [1, 2, 3]}], 3),
        ([{"role": "assistant", "content": "eight by"}], 2),
        ([{"role": "assistant", "content": "ninebytes"}], 3),
        ([{"role": "assistant", "content": "éé"}], 1),
        (
            [{"role": "assistant", "content": "eight by", "train_on": False}, {"role": "assistant", "content": "four"}],
            1,
        ),
        (
            [{"role": "assistant", "content": "eight by"}, {"role": "assistant", "content": "four", "supervise": True}],
            1,
        ),
        ([{"role": "assistant", "content": None, "reasoning_content": "four"}], 1),
        ([{"role": "assistant", "content": [{"type": "text", "text": "eight by"}]}], 2),
        ([{"role": "assistant", "content": ""}], 1),
        ([], 1),
    ],
)
def test_only_what_is_learned_counts(turns: list[dict[str, Any]], tokens: int) -> None:
    assert supervised_tokens([USER, *turns]) == tokens


def test_a_call_is_learned_too() -> None:
    call = {"id": "c", "function": {"name": "ls", "arguments": "{}"}}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert supervised_tokens([turn]) == -(-len('[{"name":"ls","arguments":"{}"}]') // 4)
