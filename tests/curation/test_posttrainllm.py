"""The original's sketch and keys: numbers worked out from its definition."""

import time
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.curation import posttrainllm
from trace_flywheel.curation.posttrainllm import (
    answer_key,
    coefficients,
    first_of_each,
    is_tool_echo,
    near_first,
    sketch,
    trajectory_key,
    window_hashes,
)

MASK, P = (1 << 64) - 1, (1 << 61) - 1


def fnv(data: bytes) -> int:
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def test_known_hashes() -> None:
    assert window_hashes("", 5).tolist() == [0xCBF29CE484222325]
    assert window_hashes("a", 5).tolist() == [0xAF63DC4C8601EC8C]  # FNV-1a's published vector
    assert window_hashes("foobar", 6).tolist() == [0x85944171F73967E8]


@given(st.text(max_size=30), st.integers(1, 7))
def test_windows_are_of_scalars_and_hashed_over_utf8(text: str, k: int) -> None:
    text = text.encode("utf-8", "ignore").decode()
    windows = [text[i : i + k] for i in range(len(text) - k + 1)] or [text]
    assert window_hashes(text, k).tolist() == [fnv(w.encode()) for w in windows]


@given(st.text("ab é漢", min_size=1, max_size=20))
def test_a_sketch_is_the_minimum_of_each_permutation(text: str) -> None:
    a, b = coefficients(8)
    hashes = window_hashes(text, 5).tolist()
    expected = [min(((int(x) * h + int(y)) & MASK) % P for h in hashes) for x, y in zip(a, b, strict=True)]
    assert sketch(text, 5, a, b).tolist() == expected


def test_coefficients_follow_its_generator() -> None:
    s = (0xC0FFEE1234ABCDEF * 6364136223846793005 + 1442695040888963407) & MASK
    t = (s * 6364136223846793005 + 1442695040888963407) & MASK
    a, b = coefficients(64)
    assert (int(a[0]), int(b[0])) == ((s | 1) % P, t % P)
    assert len(a) == len(b) == 64


@given(st.lists(st.text("ab é漢😀", max_size=9), max_size=6), st.integers(1, 7), st.sampled_from([0.2, 0.6, 1.0]))
def test_contexts_that_go_on_from_each_other_are_sketched_as_alone(parts: list[str], k: int, threshold: float) -> None:
    texts = ["".join(parts[: i + 1]) for i in range(len(parts))] * 2
    a, b = coefficients(8)
    alone = [sketch(text, k, a, b) for text in texts]
    expected: list[float | None] = []
    kept: list[int] = []
    for i in range(len(texts)):
        highest = max(((alone[i] == alone[j]).mean() for j in kept), default=None)
        dropped = highest is not None and highest >= threshold
        expected.append(highest if dropped else None)
        kept += [] if dropped else [i]
    assert near_first(texts, threshold, k, 8) == expected


def test_a_long_recording_is_sketched_once_not_once_a_turn() -> None:
    """Two megabytes before each of 40 turns: 80 MB to sketch if every context were read from its start."""
    text = "".join(f"{i:x} " for i in range(360_000))
    contexts = [f"{text}{'turn ' * i}" for i in range(40)]
    start = time.process_time()
    assert near_first(contexts, 1.1, 5, 64) == [None] * 40
    assert near_first(contexts, 1.1, 5, 0) == [None] * 40
    assert time.process_time() - start < 20


def test_windows_are_hashed_alike_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["", "a", "ab é漢😀 and so on", "lone \ud800 surrogate"]
    monkeypatch.setattr(posttrainllm, "pays", lambda kind, seconds: True)
    compiled = [window_hashes(text, k).tolist() for text in texts for k in (1, 5, 40)]
    monkeypatch.setattr(posttrainllm, "pays", lambda kind, seconds: False)
    assert [window_hashes(text, k).tolist() for text in texts for k in (1, 5, 40)] == compiled


def test_two_spellings_of_one_question_estimate_as_the_original_does() -> None:
    assert near_first(["What is 2 + 2?", "What is 2 + 2 ?"], 0.6, 5, 64) == [None, 47 / 64]
    assert near_first(["What is 2 + 2?", "What is 2 + 2 ?"], 0.85, 5, 64) == [None, None]


@pytest.mark.parametrize(("threshold", "perms", "kept"), [(1.01, 64, 3), (0.0, 64, 1), (0.85, 0, 3), (-1.0, 0, 1)])
def test_the_ends_of_its_options(threshold: float, perms: int, kept: int) -> None:
    assert near_first(["one text", "one text", "other"], threshold, 5, perms).count(None) == kept


def test_rows_are_compared_with_kept_rows_only() -> None:
    a, b, c = "the cat sat on the mat today", "the cat sat on the mat todax", "the cat sat on the max todax"
    found = near_first([a, b, c], 0.7, 5, 64)
    assert found[0] is None
    assert found[1] is not None
    against_a = (sketch(a, 5, *coefficients(64)) == sketch(c, 5, *coefficients(64))).mean()
    assert found[2] == (against_a if against_a >= 0.7 else None)


def test_keys_are_canonically_equal_and_hold_no_more_than_they_should() -> None:
    nfd = unicodedata.normalize("NFD", "café")
    assert answer_key(nfd, "x") == answer_key("café", "x") != answer_key("caf", "éx")
    assert trajectory_key([("user", False, nfd)]) == "user\x1ffalse\x1fcafé"
    said = [("user", False, "q"), ("assistant", True, "a")]
    with_ids = [trajectory_key(said, ids) for ids in ([None, [1, 2]], [None, [12]], [[1], [2]], [None, None])]
    assert len({trajectory_key(said), *with_ids}) == 5
    assert first_of_each(["a", "b", "a"]) == [True, True, False]


@pytest.mark.parametrize(
    ("answer", "echo"),
    [
        ('{"tool": "x", "arguments": {}}', True),
        ('  \n{"tool":"ping","arguments":{}}\n', True),
        ('{"tool" : "x"}', False),
        ('{"tool":"submit","arguments":{"answer":"B"}}', False),
        ('Sure! {"tool":"x"}', False),
        ('{"answer": "4"}', False),
    ],
)
def test_its_echo_rule_is_a_test_of_spelling(answer: str, echo: bool) -> None:
    assert is_tool_echo(answer) is echo


def test_no_text_overflows_quietly() -> None:
    with np.errstate(over="raise"):
        assert len(window_hashes("long enough to multiply often", 5)) == 25
