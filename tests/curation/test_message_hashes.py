"""Identity by content: what counts, what does not."""

import msgspec
import orjson
import pytest

from trace_flywheel.curation.message_hashes import (
    Conversation,
    _rests,
    attempt_hash,
    content_hash,
    exact_hash,
    roles,
)
from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rollout import Rollout, Source

USER = Message(role="user", content="List the files")
SAID = Message(role="assistant", content="Done")


def message_hashes(messages):
    return Conversation(messages).hashes


def message_norms(messages):
    return Conversation(messages).norms


def context_hash(rollout):
    return Conversation(rollout.messages, rollout.tools).context


def calling(*calls, content=None, **fields):
    return Message(role="assistant", content=content, tool_calls=tuple(ToolCall(*call) for call in calls), **fields)


def result(call_id, text):
    return Message(role="tool", content=text, tool_call_id=call_id)


def rollout(*messages, **fields):
    address = {"run_id": "root/a", "trace_id": "t", "task_id": "task", **fields}
    return Rollout(source=Source("eval_run", "a/results.json", "0" * 64), messages=messages, **address)


def test_roles():
    assert roles([Message(role="system"), USER, SAID, result("c", "")]) == "suat"


@pytest.mark.parametrize("blank", [None, "", []])
def test_absent_text_has_one_form(blank):
    turn = calling(("c", "ls", "{}"), content=blank)
    assert message_hashes([turn]) == message_hashes([calling(("c", "ls", "{}"))])
    assert exact_hash([turn], []) == exact_hash([calling(("c", "ls", "{}"))], [])


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("", "{}", True),
        ("null", "{}", True),
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}', True),
        ('{"n": 5000}', '{"n": 5000.0}', True),
        ('{"n": 1}', '{"n": "1"}', False),
        ('{"path": "A"}', '{"path": "a"}', False),
        ("not json", "not  json", False),
    ],
)
def test_spellings_of_arguments(left, right, same):
    one, other = [calling(("c", "ls", left))], [calling(("c", "ls", right))]
    assert (message_norms(one) == message_norms(other)) is same


def test_call_ids_do_not_count_and_names_do():
    assert message_hashes([calling(("call_1", "ls"))]) == message_hashes([calling(("toolu_9", "ls"))])
    assert message_hashes([calling(("c", "ls"))]) != message_hashes([calling(("c", "cat"))])


def test_a_result_is_bound_to_its_call_by_position():
    def attempt(a, b, first, second):
        return [calling((a, "ls"), (b, "cat")), result(first, "x"), result(second, "x")]

    there = message_hashes(attempt("a", "b", "a", "b"))
    assert there == message_hashes(attempt("1", "2", "1", "2"))
    assert there != message_hashes(attempt("1", "2", "2", "1"))


def test_tool_only_turns_with_different_calls_differ():
    assert exact_hash([USER, calling(("c", "ls", '{"p": 1}'))], []) != exact_hash(
        [USER, calling(("c", "ls", '{"p": 2}'))], []
    )


def test_norms_fold_case_and_white_space():
    one, other = [Message(role="assistant", content="Two  words\n")], [Message(role="assistant", content="two WORDS")]
    assert message_norms(one) == message_norms(other)
    assert message_hashes(one) != message_hashes(other)


def test_composed_and_decomposed_text_are_one():
    assert message_hashes([Message(role="user", content="caf\u00e9")]) == message_hashes(
        [Message(role="user", content="cafe\u0301")]
    )


def test_text_parts_are_text_and_an_image_is_content():
    text = Message(role="user", content=[{"type": "text", "text": "hello"}])
    image = Message(role="user", content=[{"type": "text", "text": "hello"}, {"type": "image_url", "image_url": "x"}])
    assert message_hashes([text]) == message_hashes([Message(role="user", content="hello")])
    assert message_hashes([image]) != message_hashes([text])


def test_hashes_fit_a_signed_column():
    hashes = message_hashes([Message(role="user", content=str(i)) for i in range(200)])
    assert all(-(2**63) <= h < 2**63 for h in hashes)
    assert min(hashes) < 0 < max(hashes)


def test_hashes_are_the_same_in_every_process():
    assert message_hashes([USER, SAID]) == [-2219803587855684008, 3370030560312530119]


def test_context_is_all_before_the_first_assistant_turn():
    one = rollout(Message(role="system", content="Be short"), USER, SAID)
    other = rollout(Message(role="system", content="Be short"), USER, Message(role="assistant", content="No"), USER)
    assert context_hash(one) == context_hash(other)
    assert context_hash(one) != context_hash(rollout(USER, SAID))
    assert context_hash(one) != context_hash(msgspec.structs.replace(one, tools=(Tool("ls", "lists"),)))


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("root@8e12451d-ab8a-464f-a9c8-8d4d63a06f8b:~#", "root@e10f430c-ec16-43ed-b898-1c02ae28e706:~#", True),
        ("root@8e12451dab8a:/app#", "root@0b9f430cec16:/app#", True),
        ("now 2026-02-09T12:15:32Z", "now 2026-02-09 12:22:47.123+01:00", True),
        ("fix commit 8e12451dab8a", "fix commit 0b9f430cec16", False),
        ("due 2026-02-09", "due 2026-02-10", False),
        ("root@build-7:~#", "root@build-8:~#", False),
    ],
)
def test_what_is_new_in_every_attempt_parts_none(left, right, same):
    one, other = (rollout(Message(role="user", content=text), SAID) for text in (left, right))
    assert (context_hash(one) == context_hash(other)) is same
    assert (message_hashes(one.messages) == message_hashes(other.messages)) is same
    assert (message_norms(one.messages) == message_norms(other.messages)) is same
    assert content_hash(one) != content_hash(other)
    assert exact_hash(one.messages, ()) != exact_hash(other.messages, ())
    said = [[Message(role="assistant", content=text)] for text in (left, right)]
    assert message_hashes(said[0]) != message_hashes(said[1])


def test_inferred_tools_are_no_context():
    one = rollout(USER, SAID)
    assert context_hash(one) == context_hash(msgspec.structs.replace(one, tools=(Tool("ls", inferred=True),)))


def test_reasoning_is_content_and_not_what_was_said():
    thought = msgspec.structs.replace(SAID, reasoning="because")
    assert message_hashes([SAID]) == message_hashes([thought])
    assert content_hash(rollout(USER, SAID)) != content_hash(rollout(USER, thought))


def attempt(**fields):
    one = rollout(USER, SAID, **fields)
    return attempt_hash(one, content_hash(one))


def test_a_copied_attempt_is_known_by_time_and_content():
    assert attempt(started_at="2026-01-01T00:00:00Z") == attempt(
        started_at="2026-01-01T00:00:00Z", run_id="root/b", trace_id="u"
    )
    assert attempt(session_id="s") == attempt(session_id="s", run_id="root/b")


def test_twins_stay_two():
    assert attempt(started_at="2026-01-01T00:00:00Z") != attempt(started_at="2026-01-01T00:00:01Z")
    assert attempt() != attempt(run_id="root/b")
    assert attempt() == attempt()


def test_exact_hash_reads_an_absent_mask_as_supervised():
    on, off = (msgspec.structs.replace(SAID, train_on=flag) for flag in (True, False))
    assert exact_hash([USER, SAID], []) == exact_hash([USER, on], [])
    assert exact_hash([USER, SAID], []) != exact_hash([USER, off], [])


def test_exact_hash_folds_text_and_keeps_roles():
    assert exact_hash([USER, SAID], []) == exact_hash(
        [msgspec.structs.replace(USER, content=" list  the FILES "), SAID], []
    )
    assert exact_hash([USER], []) != exact_hash([msgspec.structs.replace(USER, role="system")], [])


@pytest.mark.parametrize(
    ("message", "form"),
    [
        (Message("user", "x"), ["user", [], [], None, False, None]),
        (Message("system", "x", name=""), ["system", [], [], None, False, ""]),
        (Message("user", "x", name="Ann"), ["user", [], [], None, False, "Ann"]),
        (Message("assistant", "x", name="Ann"), ["assistant", [], [], None, False, None]),
        (Message("tool", "x", tool_call_id="c", is_error=True), ["tool", [], [], 0, True, None]),
        (Message("user", [{"type": "text", "text": "x"}]), ["user", [], [], None, False, None]),
        (
            Message("assistant", None, tool_calls=(ToolCall("c", "f"),)),
            ["assistant", [], [["f", "{}"]], None, False, None],
        ),
    ],
)
def test_what_stands_beside_a_text_is_one_json_array_however_it_is_written(
    message: Message, form: list[object]
) -> None:
    assert _rests([message]) == [orjson.dumps(form)]
