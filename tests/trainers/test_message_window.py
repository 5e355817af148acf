"""The message window: whole groups from the end, the task always, prompts that stay prefixes."""

import sys

import orjson
import pytest

from trace_flywheel.flow.conversion.convert import convert
from trace_flywheel.flow.conversion.request import Request
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.trainers.message_window import Window, WindowError, _tokenizer, cut, windowed


def said(role, words):
    return {"role": role, "content": words}


PROMPT = [
    said("system", "s1 s2"),
    said("user", "task"),
    said("assistant", "a1"),
    said("tool", "r1 r1"),
    said("tool", "r2"),
    said("user", "more"),
    said("assistant", "a2"),
    said("tool", "r3"),
]
ANSWER = [said("assistant", "done now")]


def render(messages, opens):
    """One token a word, one that opens each message."""
    ids = [hash_of(word) for m in messages for word in (f"<{m['role']}>", *m["content"].split())]
    return [*ids, hash_of("<assistant>")] if opens else ids


def hash_of(word):
    return int.from_bytes(word.encode(), "big")


def kept(max_length):
    prompt, before, after = cut(PROMPT, ANSWER, render, max_length)
    return [m["content"] for m in prompt], before, after


@pytest.mark.parametrize(
    ("max_length", "left", "tokens"),
    [
        (21, ["s1 s2", "task", "a1", "r1 r1", "r2", "more", "a2", "r3"], 21),
        (20, ["s1 s2", "task", "more", "a2", "r3"], 14),
        (13, ["s1 s2", "task", "a2", "r3"], 12),
        (11, ["s1 s2", "task"], 8),
    ],
)
def test_whole_groups_are_kept_from_the_end(max_length, left, tokens):
    assert kept(max_length) == (left, 21, tokens)


def test_without_a_first_user_turn_the_first_message_stays():
    prompt = [said("assistant", "a"), said("user", "u"), said("user", "v")]
    assert cut(prompt, ANSWER, render, 7)[0] == [prompt[0], prompt[2]]


def test_what_no_window_helps():
    with pytest.raises(WindowError, match="longer than 7 tokens"):
        kept(7)
    with pytest.raises(WindowError, match="no prefix"):
        cut(PROMPT, ANSWER, lambda messages, opens: [len(messages), *render(messages, opens)], 100)
    with pytest.raises(WindowError, match="no token to train on"):
        cut(PROMPT, [], lambda messages, opens: render(messages, False), 100)


def test_without_the_package_it_is_one_clear_line(tmp_path, monkeypatch, benchflow_trial):
    benchflow_trial(tmp_path / "jobs" / "j", "a__1")
    monkeypatch.setitem(sys.modules, "transformers", None)
    _tokenizer.cache_clear()
    request = Request((tmp_path / "jobs",), tmp_path / "rows.jsonl", "trl-sft", window=Window("t", 10))
    with pytest.raises(FlywheelError, match=r"pip install 'trace-flywheel\[tokenizer\]'"):
        convert(request, 1)
    assert not (tmp_path / "rows.jsonl").exists()


@pytest.fixture
def tokenizer(tmp_path):
    """A tokenizer of words with a chat template, built here."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "<m>": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    made.chat_template = (
        "{% for m in messages %}<m> {{ m['role'] }} {{ m['content'] or 'call' }} {% endfor %}"
        "{% if add_generation_prompt %}<m> assistant {% endif %}"
    )
    made.save_pretrained(tmp_path / "tokenizer")
    _tokenizer.cache_clear()
    return str(tmp_path / "tokenizer")


def test_rows_by_a_real_tokenizer(tokenizer):
    row = windowed({"prompt": PROMPT, "completion": ANSWER, "tools": []}, Window(tokenizer, 25))
    assert [m["content"] for m in row["prompt"]] == ["s1 s2", "task", "more", "a2", "r3"]
    assert row["context_window"] == {
        "policy": "message-window",
        "original_messages": 9,
        "retained_messages": 6,
        "messages_dropped": 3,
        "original_tokens": 30,
        "final_tokens": 20,
        "max_length": 25,
        "tokenizer": tokenizer,
        "tokenizer_revision": None,
    }


def test_a_conversion_by_a_real_tokenizer(tokenizer, tmp_path, benchflow_trial):
    benchflow_trial(tmp_path / "jobs" / "j", "a__1", prompts=("First.", "Second."))
    benchflow_trial(tmp_path / "jobs" / "j", "b__1", prompts=("Long " * 50,))
    request = Request((tmp_path / "jobs",), tmp_path / "rows.jsonl", "trl-sft", window=Window(tokenizer, 20))
    tally = convert(request, 1)
    (row,) = [orjson.loads(line) for line in (tmp_path / "rows.jsonl").read_bytes().splitlines()]
    assert row["context_window"]["messages_dropped"] > 0
    assert row["context_window"]["final_tokens"] <= 20
    assert [m["role"] for m in row["prompt"]][:2] == ["system", "user"]
    told = row["context_window"]
    counts = tally.manifest(request)
    assert (counts["rows_compacted"], counts["messages_dropped"]) == (1, told["messages_dropped"])
    assert (counts["max_original_tokens"], counts["max_final_tokens"]) == (
        told["original_tokens"],
        told["final_tokens"],
    )
    assert [(d["reason"], d["rollout"][-4:]) for d in tally.drops] == [("no_window", "b__1")]
