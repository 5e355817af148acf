import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.records.message import Message, ToolCall
from trace_flywheel.sources import pairing
from trace_flywheel.sources.pairing import pair


def turn(*ids: str, name: str = "bash") -> Message:
    return Message("assistant", tool_calls=tuple(ToolCall(i, name, f'{{"n": "{i}"}}') for i in ids))


def result(call_id: str | None, content: str = "", **values) -> Message:
    return Message("tool", content, tool_call_id=call_id, **values)


USER = Message("user", "go")


def shape(messages) -> list[str]:
    """`a:c1,c2` for calls, `t:c1=text` for results, the role's letter and text for the rest."""
    out = []
    for m in messages:
        if m.tool_calls:
            out.append("a:" + ",".join(c.id for c in m.tool_calls))
        elif m.role == "tool":
            out.append(f"t:{m.tool_call_id}={m.content}")
        else:
            out.append(f"{m.role[0]}:{m.content or ''}")
    return out


def test_results_follow_in_call_order() -> None:
    paired = pair([USER, turn("c1", "c2"), result("c2", "B"), result("c1", "A")])
    assert shape(paired.messages) == ["u:go", "a:c1,c2", "t:c1=A", "t:c2=B"]
    assert (paired.renamed, paired.merged, paired.orphans) == (0, 0, ())


def test_a_user_turn_between_results_comes_after_them() -> None:
    paired = pair([turn("c1", "c2"), result("c1", "A"), USER, result("c2", "B")])
    assert shape(paired.messages) == ["a:c1,c2", "t:c1=A", "t:c2=B", "u:go"]


def test_a_drifted_id_takes_the_oldest_open_call() -> None:
    paired = pair([turn("fc_1", "fc_2"), result("call_1", "A"), result("call_2", "B")])
    assert shape(paired.messages) == ["a:call_1,call_2", "t:call_1=A", "t:call_2=B"]
    assert paired.renamed == 2


def test_a_drifted_id_never_takes_the_call_whose_result_is_still_to_come() -> None:
    paired = pair([turn("c1", "c2"), result("x9", "?"), result("c1", "A")])
    assert shape(paired.messages) == ["a:c1,x9", "t:c1=A", "t:x9=?"]


def test_parts_of_one_result_are_joined() -> None:
    paired = pair([turn("c1"), result("c1", "one"), result("c1", "two", is_error=True)])
    assert shape(paired.messages) == ["a:c1", "t:c1=one\ntwo"]
    assert paired.messages[1].is_error
    assert paired.merged == 1


def test_ids_used_again_in_a_later_turn_become_unique() -> None:
    paired = pair([turn("call_0"), result("call_0", "A"), turn("call_0"), result("call_0", "B"), turn("call_0")])
    assert shape(paired.messages) == ["a:call_0", "t:call_0=A", "a:call_0-2", "t:call_0-2=B", "a:call_0-3"]


def test_two_parallel_calls_with_one_id_get_a_result_each() -> None:
    paired = pair([turn("c1", "c1"), result("c1", "A"), result("c1", "B")])
    assert shape(paired.messages) == ["a:c1,c1-2", "t:c1=A", "t:c1-2=B"]


def test_a_late_result_stays_where_it_came() -> None:
    paired = pair([turn("c1"), USER, Message("assistant", "waiting"), result("c1", "A"), USER])
    assert shape(paired.messages) == ["a:c1", "u:go", "a:waiting", "t:c1=A", "u:go"]


def test_an_empty_result_is_kept() -> None:
    assert shape(pair([turn("c1"), result("c1", "")]).messages) == ["a:c1", "t:c1="]


def test_a_function_result_is_known_by_its_name() -> None:
    paired = pair([turn("call_000000", name="look"), result(None, "A", name="look")])
    assert shape(paired.messages) == ["a:call_000000", "t:call_000000=A"]


def test_results_without_a_call_are_orphans() -> None:
    assert pair([USER, result("c1", "A")]).orphans == (1,)
    assert pair([turn("c1"), result(None, "A")]).orphans == (1,)
    assert pair([result("c1", "A"), turn("c1")]).orphans == (0,), "a result before its call is none of it"
    assert pair([turn("c1"), result("c1", "A"), USER, result("c1", "B")]).orphans == (3,)


def test_an_open_call_stays_open() -> None:
    paired = pair([USER, turn("c1")])
    assert shape(paired.messages) == ["u:go", "a:c1"]
    assert paired.orphans == ()


ids = st.sampled_from(["a", "b", "c", "a-2", ""])
a_message = st.one_of(
    st.just(USER),
    st.lists(ids.filter(bool), max_size=3).map(lambda found: turn(*found)),
    st.tuples(ids, st.text("xy", max_size=2)).map(lambda t: result(t[0] or None, t[1])),
)


@given(st.lists(a_message, max_size=12))
def test_nothing_is_lost_and_every_id_is_unique(messages: list[Message]) -> None:
    paired = pair(messages)
    before = [c for m in messages for c in m.tool_calls]
    after = [c for m in paired.messages for c in m.tool_calls]
    assert [(c.name, c.arguments) for c in before] == [(c.name, c.arguments) for c in after]
    assert len({c.id for c in after}) == len(after)
    results = [m for m in messages if m.role == "tool"]
    kept = [m for m in paired.messages if m.role == "tool"]
    assert len(kept) == len(results) - paired.merged
    answered = [m.tool_call_id for m in kept]
    if not paired.orphans:
        assert len(set(answered)) == len(answered)
        assert set(answered) <= {c.id for c in after}
        again = pair(paired.messages)
        assert again.messages == paired.messages
        assert (again.renamed, again.merged) == (0, 0)


IDS = st.sampled_from(["", "c1", "c2", "c3", "c4", "c2-2"])
STEPS = st.one_of(
    st.just([USER]),
    st.lists(IDS, max_size=2).map(lambda ids: [turn(*ids)]),
    st.lists(IDS, min_size=1, max_size=2).map(lambda ids: [turn(*ids), *map(result, ids)]),
    (IDS | st.none()).map(lambda call: [result(call)]),
)


@given(st.lists(STEPS, max_size=5).map(lambda steps: [message for step in steps for message in step]), st.booleans())
def test_what_comes_back_as_it_is_would_have_come_back_so(messages: list[Message], repair: bool) -> None:
    at_once = pair(messages, repair)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairing, "_is_paired", lambda messages: False)
        assert pair(messages, repair) == at_once


def test_a_conversation_in_order_comes_back_as_it_is() -> None:
    messages = [
        USER,
        turn("c1", "c2"),
        result("c1", "A"),
        result("c2", "B"),
        turn("c3"),
        USER,
        turn("c4"),
        result("c4"),
    ]
    assert pairing._is_paired(messages)
    assert pair(messages).messages == tuple(messages)
    for broken in ([result("c1"), turn("c1")], [turn("c1"), USER, result("c1")], [turn("c1"), turn("c1")]):
        assert not pairing._is_paired(broken)
