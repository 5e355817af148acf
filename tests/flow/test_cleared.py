"""What was clean once is not scanned again, and every row is judged as if it were scanned whole."""

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow import cleared as cleared_files
from trace_flywheel.flow.cleared import Cleared, Objects, Texts, is_known, remember
from trace_flywheel.flow.publish import Finisher, layouts_for
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rows import KtoRow, Provenance, RlRow, named
from trace_flywheel.redaction.policy import Policy, policy_named
from trace_flywheel.redaction.redact import Redactor, redactor
from trace_flywheel.redaction.scanner import Scanner
from trace_flywheel.trainers.layout import Kind

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
LONG = "all work and no play " * 20
TEXTS = st.sampled_from(["", "hello", TOKEN, f"x\n{TOKEN}", "jane.doe@corp-mail.com", "hunter2hunter2", "\\u0067", "é"])
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "password"]),
        "content": st.builds(lambda t, long: t + long, TEXTS, st.sampled_from(["", LONG])),
    },
    optional={"password": TEXTS, "arguments": st.dictionaries(TEXTS, TEXTS, max_size=2)},
)


@given(st.lists(MESSAGES, max_size=6), st.lists(st.lists(st.integers(0, 5), max_size=5), max_size=5), TEXTS)
def test_lines_of_shared_messages_are_judged_as_if_each_were_scanned_whole(
    chat: list[dict[str, Any]], turns: list[list[int]], text: str
) -> None:
    rules = redactor("standard")
    cleared, clean = Cleared(rules), Objects()
    rows = [
        {"prompt": [chat[n] for n in turn if n < len(chat)], "tools": [text] * len(turn), "task_id": text}
        for turn in turns
    ]
    for row in rows:
        line = orjson.dumps(row)
        assert cleared.line(row, clean) == (line, rules.scan(row))


ROWS = st.recursive(
    TEXTS | st.integers(0, 10**12) | st.none() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["content", "password", "name", "value", TOKEN]), inner, max_size=3)
    ),
    max_leaves=12,
).map(lambda value: {"messages": value})


@given(st.lists(ROWS, min_size=1, max_size=4), ROWS)
def test_another_layout_of_a_row_is_judged_as_if_it_were_scanned_whole(rows: list[dict[str, Any]], last: Any) -> None:
    rules, texts = redactor("standard"), Texts()
    cleared = Cleared(rules)
    for row in [*rows, {"prompt": [each["messages"] for each in rows], "completion": last}]:
        assert cleared.line(row, None, texts) == (orjson.dumps(row), rules.scan(row))


class Counting(Redactor):
    """A redactor that tells how much it was given to scan."""

    seen = 0

    def scan_line(self, line: bytes) -> dict[str, int]:
        self.seen += len(line)
        return super().scan_line(line)


@pytest.fixture
def counting() -> Counting:
    policy = policy_named("standard")
    return Counting(Scanner(policy.in_force()), policy)


def test_a_prompt_that_every_turn_repeats_is_scanned_once(counting: Counting) -> None:
    chat = [{"role": "user", "content": f"{n} {LONG}"} for n in range(20)]
    cleared, clean, written = Cleared(counting), Objects(), 0
    for turn in range(20):
        line, found = cleared.line({"prompt": chat[:turn], "completion": chat[turn : turn + 1]}, clean)
        assert not found
        written += len(line)
    once = sum(len(orjson.dumps(message)) for message in chat)
    assert written > 10 * once
    assert once <= counting.seen <= 1.2 * once


def test_a_text_that_another_layout_has_is_not_scanned_again(counting: Counting) -> None:
    chat = [{"role": "user", "content": f"{n} {LONG}", "tool_calls": [{"arguments": '{"a": 1}'}]} for n in range(20)]
    cleared, texts = Cleared(counting), Texts()
    line, _ = cleared.line({"messages": chat}, None, texts)
    before = counting.seen
    again = [{**m, "tool_calls": [{"arguments": {"path": f"f{n}.py"}}]} for n, m in enumerate(chat)]
    assert cleared.line({"prompt": again[:1], "completion": again[1:], "label": True}, None, texts)[1] == {}
    assert before >= len(line)
    assert counting.seen - before < 80 * len(chat)


RULES = redactor("standard")
HOLDOUT = Holdout((), 0.5)
SPEECH = LONG * 3
CHAT = (Message("user", f"1 {SPEECH}"), Message("assistant", f"2 {SPEECH}", tool_calls=(ToolCall("c", "bash"),)))
ABOUT = Provenance("r", "rl", "task", "run", ("t",), "g", "1", (1.0,), (f"p#{'0' * 64}",))
TOOLS = (Tool("bash", "Run."),)


def rl(messages: tuple[Message, ...], said: bytes | None, **values: Any) -> RlRow:
    group = values.get("group", {"id": "g"})
    return RlRow("r", messages, values.get("tools", TOOLS), 1.0, None, group, ABOUT, {}, said)


def kto(messages: tuple[Message, ...], said: bytes | None, tools: tuple[Tool, ...] = TOOLS) -> KtoRow:
    return KtoRow("k", messages[:1], messages[1:], True, tools, ABOUT, said)


def finisher(kind: Kind, rules: Redactor) -> Finisher:
    return Finisher(layouts_for(kind, ["kto"]), rules, HOLDOUT)


def again(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The same messages, read again."""
    return msgspec.json.decode(msgspec.json.encode(messages), type=tuple[Message, ...])


def test_what_a_dataset_found_clean_the_next_one_does_not_scan_again(counting: Counting) -> None:
    said = named(CHAT, ())[1]
    assert not isinstance(finisher("rl", counting).lines(rl(CHAT, said)), Drop)
    before = counting.seen
    lines = finisher("kto", counting).lines(kto(again(CHAT), said))
    assert counting.seen - before < len(SPEECH)
    assert not isinstance(lines, Drop)
    assert lines == finisher("kto", RULES).lines(kto(CHAT, None))


def test_other_texts_of_the_next_dataset_are_scanned(counting: Counting) -> None:
    said = named(CHAT, ())[1]
    finisher("rl", counting).lines(rl(CHAT, said))
    call = msgspec.structs.replace(CHAT[1], tool_calls=(ToolCall("c", "bash", f'{{"to": "{TOKEN}"}}'),))
    named_secret = Tool("bash", "Run.", {"type": "object", "properties": {"password": {"default": TOKEN}}})
    for row in (
        kto((CHAT[0], call), named((CHAT[0], call), ())[1]),
        kto((CHAT[0], call), said),
        kto(CHAT, said, (named_secret,)),
        kto((*CHAT, Message("tool", TOKEN, tool_call_id="c")), None),
    ):
        dropped = finisher("kto", counting).lines(row)
        assert isinstance(dropped, Drop)
        assert dropped.reason == "finding_after_layout"


def test_what_had_a_finding_or_was_not_whole_is_scanned_in_the_next_dataset(counting: Counting) -> None:
    chat = (*CHAT, Message("tool", TOKEN, tool_call_id="c"))
    said = named(chat, ())[1]
    for _ in range(2):
        for dropped in (
            finisher("rl", counting).lines(rl(chat, said)),
            finisher("kto", counting).lines(kto(chat, said)),
        ):
            assert isinstance(dropped, Drop)
            assert dropped.reason == "finding_after_layout"
    cleared, texts = Cleared(counting), Texts()
    cleared.line({"messages": [{"content": CHAT[0].content}]}, None, texts)
    cleared.remember(b"said", texts, CHAT)
    assert not cleared.texts(b"said", CHAT).hold(CHAT)
    cleared.remember(b"said", texts, CHAT[:1])
    assert cleared.texts(b"said", CHAT).hold(CHAT)


def test_what_one_policy_found_clean_another_scans(counting: Counting) -> None:
    said = named(CHAT, ())[1]
    finisher("rl", counting).lines(rl(CHAT, said))
    other = Counting(Scanner(policy_named("all").in_force()), policy_named("all"))
    finisher("kto", other).lines(kto(CHAT, said))
    assert other.seen > 2 * len(SPEECH)


def test_a_row_without_a_digest_is_scanned(counting: Counting) -> None:
    finisher("rl", counting).lines(rl(CHAT, None))
    before = counting.seen
    finisher("kto", counting).lines(kto(CHAT, None))
    assert counting.seen - before > 2 * len(SPEECH)


def test_what_was_calm_as_a_content_is_judged_under_another_key() -> None:
    rules, texts, value = redactor("standard"), Texts(), "f81d4fae7dec11d0a76500a0c91e6bf6"
    cleared = Cleared(rules)
    assert cleared.line({"messages": [{"role": "user", "content": value}]}, None, texts)[1] == {}
    for row in (
        {"messages": [{"content": "x", "password": value}]},
        {"env": [{"name": "DB_PASSWORD", "value": value}]},
    ):
        assert cleared.line(row, None, texts)[1] == rules.scan(row) != {}


def test_what_has_a_finding_is_found_in_every_line(counting: Counting) -> None:
    cleared, clean = Cleared(counting), Objects()
    row = {"messages": [{"role": "user", "content": f"{LONG} {TOKEN}"}]}
    first = cleared.line(row, clean)[1]
    assert first == cleared.line(row, clean)[1] == counting.scan(row) != {}
    assert not clean


def test_with_a_second_gate_lines_are_scanned_whole() -> None:
    class Both(Counting):
        judges_texts_apart = False

    policy = policy_named("standard")
    both = Both(Scanner(policy.in_force()), policy)
    cleared, clean, row = Cleared(both), Objects(), {"messages": [{"role": "user", "content": LONG}]}
    line = cleared.line(row, clean)[0]
    cleared.line(row, clean)
    assert both.seen == 2 * len(line)


def test_only_a_policy_without_a_second_gate_judges_texts_apart() -> None:
    scanner = Scanner(policy_named("standard").in_force())
    assert Redactor(scanner).judges_texts_apart
    assert not Redactor(scanner, Policy(second_gate="kingfisher")).judges_texts_apart


def test_of_files_the_last_ones_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleared_files, "_files", {})
    monkeypatch.setattr(cleared_files, "MOST_FILES", 2)
    policy = policy_named("standard")
    for digest in ("a", "b", "b", "c"):
        remember(policy, digest)
    assert [is_known(policy, digest) for digest in "abc"] == [False, True, True]
