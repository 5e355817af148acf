"""What the classifier sees of a prompt: the compiled blocks and their twin, and the short cuts around patterns."""

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.curation import depth_patterns
from trace_flywheel.curation.depth import seed_set
from trace_flywheel.curation.depth_features import _WORDS, features
from trace_flywheel.curation.depth_kernel import WORD_BITS, blocks, blocks_numpy
from trace_flywheel.curation.depth_patterns import Guarded

pytestmark = pytest.mark.usefixtures("always_compiled")

TEXT = st.text(st.characters(exclude_categories=()) | st.sampled_from(" abcAB'?や한2"), max_size=60)


@given(st.lists(TEXT, max_size=4))
def test_blocks_are_the_same_without_a_compiler(texts: list[str]) -> None:
    words = [np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8) for text in texts]
    spaced = [f" {text} " for text in texts]
    for fast, plain in zip(blocks(words, spaced, _WORDS), blocks_numpy(words, spaced, _WORDS), strict=True):
        assert fast.dtype == plain.dtype
        assert fast.tolist() == plain.tolist()


def test_a_block_holds_each_ngram_once_and_has_length_two() -> None:
    word = np.frombuffer(b"no no no", dtype=np.uint8)
    ends, columns, values = blocks([word], [" no no no "], _WORDS)
    # words: no, no no. Characters: " n", "no", "o ", " no", "no ", "o n", " no ", "no n", "o no"
    assert (ends.tolist(), (columns < 1 << WORD_BITS).sum()) == ([0, 11], 2)
    assert (np.diff(columns) > 0).all()
    assert values.tolist() == pytest.approx([2 / 2**0.5] * 2 + [2 / 3] * 9)


GUARDS = {name: value for name, value in vars(depth_patterns).items() if isinstance(value, Guarded)}
GUARDS["NESTED"] = depth_patterns.NESTED[0]


def prompts() -> list[str]:
    sets = sorted(Path(__file__).parent.glob("depth_challenge*.jsonl"))
    found = [msgspec.json.decode(line)["prompt"] for path in sets for line in path.read_bytes().splitlines()]
    return [row.prompt for row in seed_set()] + found


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_a_guard_hides_no_match(guard: Guarded) -> None:
    texts = [text for prompt in prompts() for text in (prompt, prompt.lower())]
    matching = [text for text in texts if guard.pattern.search(text)]
    assert matching, "the prompts try the pattern"
    assert [text for text in matching if not guard.may_match(text)] == []


@given(st.text(st.sampled_from("aB2tvwo 1_é\n'"), max_size=12))
def test_patterns_that_start_at_a_character_start_at_a_word(text: str) -> None:
    assert depth_patterns.NUMBER.findall(text) == re.findall(r"\b\d", text)
    assert bool(depth_patterns.LABEL.search(text)) is bool(re.search(r"\b(?:b|2|two|v2)\b", text))
    over = depth_patterns.OVER.pattern.pattern.replace(r"[A-Z](?<!\w.)", r"\b[A-Z]")
    assert depth_patterns.OVER.pattern.findall(f"{text} over B") == re.findall(over, f"{text} over B")


def test_an_english_text_needs_the_english_pattern_alone() -> None:
    english, everywhere = depth_patterns.NESTED
    for text in prompts():
        if not everywhere.may_match(text.lower()):
            assert everywhere.pattern.findall(text.lower()) == english.pattern.findall(text.lower())


def test_no_prompt_no_row() -> None:
    assert features([]).ends.tolist() == [0]
    assert len(features([""]).ends) == 2
