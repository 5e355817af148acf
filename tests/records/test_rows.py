"""A row's id, and the digest that only its very messages have."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rows import named, row_id_of

TEXTS = st.sampled_from(["", "x", "1.0", "\u00e9", "e\u0301", "\n"])
CALLS = st.builds(ToolCall, TEXTS, TEXTS, TEXTS, st.booleans())
PARTS = st.lists(st.dictionaries(st.sampled_from("ab"), st.sampled_from([1, 1.0, "x"])), max_size=2)
MESSAGES = st.builds(
    Message,
    st.sampled_from(["user", "assistant"]),
    content=TEXTS | st.none() | PARTS,
    reasoning=TEXTS | st.none(),
    tool_calls=st.lists(CALLS, max_size=2).map(tuple),
    train_on=st.booleans() | st.none(),
    logprobs=st.none() | st.just((-0.5, -1.0)),
    extra=st.none() | st.just({"n": 2.0}),
)
CONVERSATIONS = st.lists(MESSAGES, max_size=3).map(tuple)
TOOLS = (Tool("bash", "Run.", {"most": 5.0, "names": ["e\u0301"]}),)


@given(CONVERSATIONS, st.tuples(TEXTS, st.booleans() | TEXTS))
def test_named_gives_the_row_id(messages: tuple[Message, ...], rest: tuple[Any, ...]) -> None:
    for tools in ((), TOOLS):
        assert named(messages, tools, *rest)[0] == row_id_of(messages, tools, *rest)
    assert named(messages, TOOLS)[0] == row_id_of(messages, TOOLS)


@given(CONVERSATIONS, CONVERSATIONS)
def test_only_equal_messages_said_the_same(one: tuple[Message, ...], other: tuple[Message, ...]) -> None:
    said = [named(messages, TOOLS, "t")[1] for messages in (one, other)]
    if said[0] is not None:
        assert (said[0] == said[1]) == (msgspec.json.encode(one) == msgspec.json.encode(other))


def test_what_has_two_spellings_has_an_id_and_no_digest() -> None:
    for content in ("e\u0301", [{"type": "text", "text": "x"}]):
        row_id, said = named((Message("user", content),), ())
        assert (len(row_id), said) == (32, None)
    assert named((Message("user", "x", extra={"a": 1}),), ())[1] is None
    assert named((Message("assistant", "x", logprobs=(-1.0,), token_ids=(1,)),), ())[1] is None


def test_the_digest_is_of_the_messages_alone() -> None:
    messages = (Message("user", "q"), Message("assistant", "a"))
    one, other = named(messages, (), "run", "trace"), named(messages, TOOLS, True)
    assert one[1] == other[1] != named(messages[:1], (), "run", "trace")[1]
    assert one[0] != other[0]
