import hashlib
import json
import random
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.curation.golden_text import grams_of, ngrams, spelt
from trace_flywheel.curation.holdout import COMMON_TASKS, Holdout, fingerprint
from trace_flywheel.flow.goldens import asked_by_task
from trace_flywheel.records.golden import Golden
from trace_flywheel.records.message import Message, ToolCall

STATEMENT = (
    "Given the quarterly ledger in ledger.csv, find the customer whose refunds exceed a third of purchases "
    "and write the customer's name together with both totals into report.txt."
)
ANSWER = "The customer is Halvorsen Marine with refunds of 4120 against purchases of 9980 in total."
GOLDEN = Golden("g-ledger", statement=STATEMENT, answer=ANSWER, path="eval/goldens.jsonl", line=3)


def asked(text: str, *more: Message) -> list[Message]:
    return [Message("user", text), *more]


def tasks_asking(goldens: list[Golden], *texts: str) -> list[np.ndarray]:
    """What the index would hold of tasks with these prompts."""
    return [Holdout(goldens, 0.5).find(asked(text)).asked for text in texts]


def said(text: str) -> Message:
    return Message("assistant", text)


def test_golden_by_suite_and_task_id() -> None:
    goldens = [Golden("a", suite="s1", line=1), Golden("b", line=2)]
    frame = pd.DataFrame(
        {"task_id": ["a", "a", "a", "b", "c"], "suite": ["s1", "s2", None, "s2", "s1"]},
    )
    answer = Holdout(goldens, 0.5).by_id(frame)
    assert answer["row"].tolist() == [0, 2, 3]  # a row without a suite may be of any
    assert set(answer["reason"]) == {"golden_id"}
    assert json.loads(answer["evidence"].iat[0]) == {"golden": "a", "suite": "s1", "path": "", "line": 1}


def test_statement_under_another_task_id_is_found_and_measured() -> None:
    found = Holdout([GOLDEN], 0.5).hits(asked("Hello!\n\n" + STATEMENT.upper().replace(",", " --"), said("ok")))
    assert found == {
        "golden": "g-ledger",
        "suite": None,
        "path": "eval/goldens.jsonl",
        "line": 3,
        "side": "statement",
        "share": 1.0,
        "overlap": 0.5,
    }


def test_share_of_the_statement_decides() -> None:
    words = STATEMENT.split()
    half, less = " ".join(words[:18]), " ".join(words[:13])
    holdout = Holdout([GOLDEN], 0.5)
    found = holdout.hits(asked(half))
    assert found is not None
    assert 0.5 <= found["share"] < 0.6
    assert holdout.hits(asked(less)) is None
    assert Holdout([GOLDEN], 0.2).hits(asked(less)) is not None


def test_changed_words_do_not_hide_a_golden() -> None:
    assert Holdout([GOLDEN], 0.5).hits(asked(STATEMENT.replace("a third", "one third"))) is not None


@pytest.mark.parametrize(
    "message",
    [
        said(f"I think: {ANSWER}"),
        Message("assistant", None, reasoning=ANSWER.lower()),
        Message("assistant", None, tool_calls=(ToolCall("c", "submit", json.dumps({"steps": [{"text": ANSWER}]})),)),
        Message("system", STATEMENT),
        Message("user", [{"type": "text", "text": ANSWER}]),
    ],
)
def test_statement_or_answer_is_found_wherever_it_could_be_learned(message: Message) -> None:
    assert Holdout([GOLDEN], 0.5).hits(asked("Please do the task.", message)) is not None


def test_answer_must_stand_there_whole() -> None:
    holdout = Holdout([Golden("g", answer=ANSWER)], 0.5)
    found = holdout.hits(asked("hm", said(ANSWER)))
    assert found is not None
    assert found["side"] == "answer"
    assert holdout.hits(asked("hm", said(ANSWER.replace("9980", "9981")))) is None
    assert holdout.hits(asked("hm", said("x" + ANSWER))) is None


def test_tool_output_is_not_searched() -> None:
    assert Holdout([GOLDEN], 0.5).hits(asked("hm", Message("tool", f"{STATEMENT} {ANSWER}"))) is None


def test_short_answer_alone_holds_nothing_out() -> None:
    assert (
        Holdout([Golden("g", statement=STATEMENT, answer="Halvorsen Marine")], 0.5).hits(
            asked("Who is the customer?", said("Halvorsen Marine"))
        )
        is None
    )


def test_short_statement_must_be_a_whole_user_turn() -> None:
    holdout = Holdout([Golden("g", statement="What is the capital of Peru?")], 0.5)
    found = holdout.hits(asked("what is the  capital of PERU"))
    assert found is not None
    assert found["golden"] == "g"
    assert holdout.hits(asked("What is the capital of Chad?")) is None
    assert holdout.hits(asked("Tell me: what is the capital of Peru?")) is None
    assert holdout.hits([said("What is the capital of Peru?")]) is None


def test_chinese_goldens_are_read_character_by_character() -> None:
    golden = Golden(
        "g", statement="请在账本中找出退款超过购买额三分之一的客户并写入报告文件", answer="客户是哈沃森海事公司退款四千"
    )
    holdout = Holdout([golden], 0.5)
    assert holdout.hits(asked("你好!请在账本中找出退款超过购买额三分之一的客户。谢谢")) is not None
    assert holdout.hits(asked("今天天气怎么样", said("我觉得客户是哈沃森海事公司退款四千元"))) is not None
    assert holdout.hits(asked("今天天气很好我们一起去公园散步然后回家吃饭")) is None


PREAMBLE = (
    "You are working in a container at slash app with network access switched off. Read the task below, do it "
    "with the tools that you are given, leave every other file as it is, and stop when the check passes. "
)
TAILS = ("Sort the invoices by due date and keep ties stable.", "Count the open tickets of each owner in the dump.")
OTHER = "Draw the logo as an SVG file with two colours only."


def test_preamble_that_goldens_share_counts_little() -> None:
    goldens = [Golden(f"g{i}", statement=PREAMBLE + tail) for i, tail in enumerate(TAILS)]
    goldens += [Golden(f"h{i}", statement=f"{PREAMBLE} {i} {i * 7} rename the columns of table {i}") for i in range(12)]
    holdout = Holdout(goldens, 0.5)
    assert holdout.hits(asked(PREAMBLE + OTHER)) is None
    assert holdout.hits(asked(PREAMBLE + TAILS[1])) is not None


def test_preamble_that_the_corpus_shares_counts_little() -> None:
    golden = Golden("g", statement=PREAMBLE + TAILS[0])
    assert Holdout([golden], 0.5).hits(asked(PREAMBLE + OTHER)) is not None
    prompts = [PREAMBLE + OTHER, *(f"{PREAMBLE} Task {i}: {i * 7} rows are to be sorted" for i in range(8))]
    holdout = Holdout([golden], 0.5, tasks_asking([golden], *prompts))
    assert holdout.hits(asked(PREAMBLE + OTHER)) is None
    assert holdout.hits(asked(PREAMBLE + TAILS[0])) is not None


def test_golden_asked_many_times_in_the_corpus_is_still_found() -> None:
    changed = STATEMENT.replace("report.txt", "summary.txt")
    found = Holdout([GOLDEN], 0.5).find(asked(changed)).asked
    tasks = pd.Series([f"t{i}" for i in range(50)])
    once = asked_by_task(tasks, pd.Series(["one prompt"] * 50), pd.Series([spelt(found)] * 50))
    assert [grams.tolist() for grams in once] == [found.tolist()]
    assert Holdout([GOLDEN], 0.5, once).hits(asked(changed)) is not None
    many = asked_by_task(tasks, pd.Series([f"prompt {i}" for i in range(50)]), pd.Series([spelt(found)] * 50))
    assert len(many) == 50


def test_what_few_tasks_share_is_no_boilerplate() -> None:
    """Half of an item under two other names must not discount itself away."""
    half = " ".join(STATEMENT.split()[:18])
    for tasks in (1, COMMON_TASKS - 1):
        assert Holdout([GOLDEN], 0.5, tasks_asking([GOLDEN], *[half] * tasks)).hits(asked(half)) is not None
    assert Holdout([GOLDEN], 0.5, tasks_asking([GOLDEN], *[half] * COMMON_TASKS)).hits(asked(half)) is None


def test_only_prompts_make_boilerplate() -> None:
    found = Holdout([GOLDEN], 0.5).find([Message("system", STATEMENT), said(STATEMENT)])
    assert (len(found.grams), len(found.asked)) == (len(ngrams(STATEMENT)),) * 2
    found = Holdout([GOLDEN], 0.5).find(asked("Do the task.", said(STATEMENT)))
    assert (len(found.grams), len(found.asked)) == (len(ngrams(STATEMENT)), 0)


def test_grams_are_spelt_and_read_back() -> None:
    grams = np.unique(ngrams(STATEMENT))
    assert grams_of(spelt(grams) or "").tolist() == grams.tolist()
    assert spelt(grams[:0]) is None


def test_an_alias_holds_out_too() -> None:
    goldens = [Golden("a", suite="s", aliases=((None, "b"), ("t", "c")), line=1)]
    frame = pd.DataFrame({"task_id": ["a", "b", "c", "c", "d"], "suite": ["s", "x", "t", "u", "s"]})
    answer = Holdout(goldens, 0.5).by_id(frame)
    assert answer["row"].tolist() == [0, 1, 2]
    named = {"golden": "a", "suite": "s", "path": "", "line": 1}
    assert [json.loads(e) for e in answer["evidence"]] == [named, {**named, "alias": "b"}, {**named, "alias": "c"}]


def test_copies_of_a_golden_do_not_discount_it_away() -> None:
    assert Holdout([Golden(f"g{i}", statement=STATEMENT) for i in range(50)], 0.5).hits(asked(STATEMENT)) is not None


def test_nothing_to_look_for_or_in() -> None:
    assert Holdout([], 0.5).hits(asked(STATEMENT)) is None
    assert Holdout([Golden("g")], 0.5).hits(asked(STATEMENT)) is None
    assert Holdout([GOLDEN], 0.5).hits([]) is None
    assert Holdout([GOLDEN], 0.5).hits(asked("")) is None


WORD = st.sampled_from([f"w{i}" for i in range(40)])


@given(st.lists(WORD, min_size=8, max_size=40), st.lists(WORD, max_size=30), st.lists(WORD, max_size=30))
def test_whole_statement_never_escapes(statement: list[str], before: list[str], after: list[str]) -> None:
    golden = Golden("g", statement=" ".join(statement))
    others = [Golden(f"o{i}", statement=" ".join(statement[i:] + before)) for i in range(3)]
    text = " ".join([*before, *statement, *after])
    assert Holdout([golden, *others], 1.0).hits(asked(text)) is not None


@given(st.randoms(use_true_random=False))
def test_order_of_goldens_does_not_matter(rng: random.Random) -> None:
    goldens = [Golden(f"g{i}", statement=STATEMENT) for i in range(4)] + [GOLDEN]
    expected = Holdout(goldens, 0.5).hits(asked(STATEMENT))
    rng.shuffle(goldens)
    assert Holdout(goldens, 0.5).hits(asked(STATEMENT)) == expected


def test_fingerprint_is_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "goldens.jsonl"
    path.write_bytes(b'{"task_id": "a"}\n')
    assert fingerprint(path) == hashlib.sha256(b'{"task_id": "a"}\n').hexdigest()[:12]


@pytest.mark.parametrize("more", [[], [GOLDEN], [msgspec.structs.replace(GOLDEN, task_id="z", line=9)]])
def test_a_statement_that_is_told_again_weighs_no_less(more: list[Golden]) -> None:
    """Nine of the 23 n-grams of the ledger's statement stand in another one too, and weigh half."""
    begun = " ".join(STATEMENT.split()[:14])
    other = Golden(
        "other",
        statement=f"{begun} of the northern branch, its debts and all that was sold there in spring and in summer.",
    )
    again = [msgspec.structs.replace(golden, line=golden.line + 1) for golden in more]
    found = Holdout([GOLDEN, other, *again], 0.1).hits(asked(begun))
    assert found is not None
    assert (found["golden"], found["share"]) == ("g-ledger", 0.2162)  # 8 n-grams at a half of 14 and 9 at a half
