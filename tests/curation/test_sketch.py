import functools
import itertools
import random

import numpy as np
import pytest
from datasketch import MinHash
from hypothesis import example, given
from hypothesis import strategies as st

from trace_flywheel.curation import compiled
from trace_flywheel.curation import sketch as module
from trace_flywheel.curation.sketch import Spans, prompt_text, shingle_hashes, sketch, supervised_text
from trace_flywheel.curation.token_kernel import ROOM, fill_ngrams, ngram_hashes, ngram_hashes_numpy
from trace_flywheel.curation.token_thirds import BYTE_BASE, fill_spaced
from trace_flywheel.records.message import Message, ToolCall

pytestmark = pytest.mark.usefixtures("always_compiled")


def datasketch_of(shingles: np.ndarray) -> np.ndarray:
    minhash = MinHash(num_perm=128, scheme="affine32", hashfunc=int)
    minhash.update_batch(shingles.tolist())
    return minhash.hashvalues


def jaccard(left: str, right: str) -> float:
    a, b = set(shingle_hashes(left).tolist()), set(shingle_hashes(right).tolist())
    return len(a & b) / len(a | b)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=3000))
def test_sketch_is_datasketch_affine32_bit_for_bit(values: list[int]) -> None:
    shingles = np.array(values, dtype=np.uint32)
    assert np.array_equal(sketch(shingles), datasketch_of(shingles))


def test_permutations_are_datasketch_s() -> None:
    assert np.array_equal(np.array(module._permutations()), MinHash(num_perm=128, scheme="affine32").permutations)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=3000))
def test_numpy_minima_equal_compiled(values: list[int]) -> None:
    shingles = np.array(values, dtype=np.uint32)
    a, b = module._permutations()
    assert np.array_equal(module._minima_numpy(compiled.plain(module._fmix32)(shingles), a, b), sketch(shingles))


TEXTS = st.text(alphabet=st.sampled_from(list("aB1_. \t\n\x1c\x00éß中文かไทยម한\U00020000\uff01")), max_size=60)
SPACED = st.text(alphabet=st.sampled_from(list("aB1 \t\n\x00éя")), max_size=60)


@given(TEXTS | SPACED, st.integers(1, 8))
@example("", 1)
@example("a", 1)
@example("a b", 1)
@example("a" * 9, 2)
@example("aaaa b c d", 2)
@example("a b c daaaaa", 2)
@example("       a", 1)
def test_numpy_ngrams_equal_compiled(text: str, n: int) -> None:
    data = np.frombuffer(text.encode(), dtype=np.uint8)
    wanted = ngram_hashes_numpy(data, module._WORDS, n)
    assert np.array_equal(ngram_hashes(data, module._WORDS, n), wanted)
    tokens, grams = np.full((2, len(data) // 2 + ROOM), 7, dtype=np.uint64)
    with np.errstate(over="ignore"):
        found = compiled.plain(fill_ngrams)(data, module._WORDS, n, tokens, grams)
    assert np.array_equal(grams[:found], wanted), "as Python, where an index that is too large is told"


def test_wherever_the_thirds_of_a_text_part() -> None:
    """All texts of up to nine letters and blanks: as compiled, and as Python, where a wrong index is told."""
    texts = ["".join(letters) for size in range(10) for letters in itertools.product("a ", repeat=size)]
    for text in texts:
        data = np.frombuffer(text.encode(), dtype=np.uint8)
        wanted = np.array([_hash_of(token) for token in text.split()], dtype=np.uint64)
        tokens = np.full(len(data) // 2 + ROOM, 7, dtype=np.uint64)
        with np.errstate(over="ignore"):
            found = compiled.plain(fill_spaced)(data, module._WORDS, tokens)
        assert tokens[:found].tolist() == wanted.tolist(), text
        tokens[:] = 7
        assert tokens[: fill_spaced(data, module._WORDS, tokens)].tolist() == wanted.tolist(), text


def _hash_of(token: str) -> int:
    """The polynomial of its bytes."""
    return functools.reduce(lambda value, byte: (value * BYTE_BASE + byte) % (1 << 64), token.encode(), 0)


@given(st.lists(TEXTS), st.integers(1, 100))
def test_texts_together_are_as_texts_alone_and_as_without_a_compiler(texts: list[str], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BATCH_CHARS", size)
        together = Spans.of_texts(texts)
        patch.setattr(compiled, "PATIENCE", 1e9)
        plain = Spans.of_texts(texts)
    assert len(together) == len(texts)
    for name in ("sketches", "values", "offsets"):
        assert np.array_equal(getattr(together, name), getattr(plain, name))
        assert getattr(together, name).dtype == getattr(plain, name).dtype
    for row, text in enumerate(texts):
        known = np.unique(ngram_hashes_numpy(module.utf8(text, module._BLANKS), module._WORDS, 5) >> np.uint64(32))
        sketched, shingles = together.of_row(row)
        assert shingles.tolist() == known.tolist() == shingle_hashes(text).tolist()
        assert sketched == datasketch_of(known).astype("<u4").tobytes()


def reference_tokens(text: str) -> list[str]:
    """Words, and characters of scripts without spaces one by one: the definition in slow words."""
    tokens = []
    for word in text.casefold().split():
        run = ""
        for char in word:
            if any(a <= ord(char) <= b for a, b in ((0x0E00, 0x0EFF), (0x3040, 0x9FFF), (0x20000, 0x3FFFF))):
                tokens += [run, char] if run else [char]
                run = ""
            else:
                run += char
        tokens += [run] if run else []
    return tokens


@given(st.text(alphabet=st.sampled_from(list("aAb \n中かไ")), max_size=30))
def test_shingles_are_sets_of_five_tokens(text: str) -> None:
    tokens = reference_tokens(text)
    expected = {tuple(tokens[i : i + 5]) for i in range(max(1, len(tokens) - 4))} if tokens else set()
    assert len(shingle_hashes(text)) == len(expected)


def test_text_of_fewer_than_five_words_is_one_shingle() -> None:
    assert len(shingle_hashes("The answer is Paris")) == 1
    assert shingle_hashes("the  ANSWER\nis paris").tolist() == shingle_hashes("The answer is Paris").tolist()
    assert shingle_hashes("The answer is Rome").tolist() != shingle_hashes("The answer is Paris").tolist()


@pytest.mark.parametrize("blank", ["", " \n\t", "\u2003"])
def test_text_without_words_has_no_shingles(blank: str) -> None:
    assert shingle_hashes(blank).tolist() == []
    assert sketch(shingle_hashes(blank)).tolist() == [0xFFFFFFFF] * 128


def test_case_and_white_space_do_not_count_and_unicode_spellings_are_one() -> None:
    assert jaccard("Straße nach Köln über den Rhein", "STRASSE  nach Ko\u0308ln\u2003ÜBER den\nRHEIN") == 1.0


def test_one_character_of_a_chinese_sentence_changes_its_own_shingles_only() -> None:
    sentence = "今天天气很好我们一起去公园散步然后回家吃饭看书睡觉"
    assert 0.5 < jaccard(sentence, sentence.replace("书", "报")) < 1.0


def test_one_english_word_in_chinese_text_does_not_change_the_unit() -> None:
    sentence = "今天天气很好我们一起去公园散步然后回家吃饭看书睡觉" * 3
    assert jaccard(sentence, sentence + " ok thanks bye now then") > 0.75


def test_lone_surrogate_is_text() -> None:
    assert len(shingle_hashes("a \ud800 b c d e")) == 2


def test_hashes_never_change() -> None:
    """They rest in lakes: another number here is another index version."""
    assert shingle_hashes("one two three four five six").tolist() == [2060950655, 3239878061]
    assert shingle_hashes("今天天气很好").tolist() == [695117217, 2688642413]


def test_estimate_is_within_four_standard_errors() -> None:
    rng = random.Random(7)
    words = [f"w{rng.randrange(10**6)}" for _ in range(2000)]
    other = words[:1800] + [f"v{i}" for i in range(200)]
    left, right = " ".join(words), " ".join(other)
    spans = Spans.of_texts([left, right])
    assert abs((spans.sketches[0] == spans.sketches[1]).mean() - jaccard(left, right)) < 4 * 0.088 * 0.5


def test_spans_survive_the_index_columns() -> None:
    spans = Spans.of_texts(["a b c d e f g", "", "short"])
    rows = [spans.values[a:b].tolist() for a, b in zip(spans.offsets, spans.offsets[1:], strict=False)]
    again = Spans.of_columns([row.astype("<u4").tobytes() for row in spans.sketches], rows)
    assert len(again) == 3
    for name in ("sketches", "values", "offsets"):
        assert np.array_equal(getattr(spans, name), getattr(again, name))
    assert len(Spans.of_texts([])) == 0


def test_supervised_text_is_what_is_learned() -> None:
    messages = [
        Message("system", "You are helpful."),
        Message("user", "Look it up."),
        Message(
            "assistant", "Looking.", reasoning="Hm.", tool_calls=(ToolCall("c1", "find", '{"n": 5000.0, "a": "x"}'),)
        ),
        Message("tool", "secret output", tool_call_id="c1"),
        Message("assistant", "Wrong turn.", train_on=False),
        Message("user", [{"type": "text", "text": "And now?"}, {"type": "image_url"}]),
        Message("assistant", "Done.", train_on=True),
    ]
    assert supervised_text(messages) == 'Hm.\nLooking.\nfind {"a":"x","n":5000}\nDone.'
    assert prompt_text(messages) == "Look it up.\nAnd now?"


def test_tool_only_turns_with_different_calls_differ() -> None:
    def row(city: str) -> str:
        return supervised_text(
            [Message("assistant", None, tool_calls=(ToolCall("c", "weather", f'{{"city":"{city}"}}'),))]
        )

    assert shingle_hashes(row("Bern")).tolist() != shingle_hashes(row("Rome")).tolist()
