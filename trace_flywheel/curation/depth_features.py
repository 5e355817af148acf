"""A prompt as a sparse row: cues, hashed word 1-2-grams, hashed character 2-4-grams of its first kilobyte.

Hashes are fixed arithmetic, so a feature has the same column on every machine and there is no vocabulary to store.
Each n-gram block has the same length, so that long prompts do not outweigh short ones.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trace_flywheel.curation.depth_cues import NAMES, cues
from trace_flywheel.curation.token_kernel import ngram_hashes, utf8

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FEATURES_VERSION = 2
"""Goes up when a prompt gets other columns or values: weights of another version mean nothing then."""
HEAD = 1024
"""Characters that are read: what is asked stands at a prompt's start or, of a long one, at its end."""
WORD_BITS = 16
CHAR_BITS = 17
COLUMNS = len(NAMES) + (1 << WORD_BITS) + (1 << CHAR_BITS)
_CHAR_NGRAMS = (2, 3, 4)
_LENGTH = 2.0
"""Length of an n-gram block beside the cues; best of 1, 2, 3 by cross-validation."""
_BASE = np.uint64(0x9E3779B97F4A7C15)
_PUNCTUATION = re.compile(r"[^\w\x00-\x7f]+")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(r"[\"“„«「『][^\"”“»」』]{24,}(?:[\"”“»」』]|\Z)")
_QUESTION = re.compile(r"\s*(?:question|frage|pregunta)\s*:", re.IGNORECASE)
_PASSAGE = re.compile(r"\s*(?:context|passage|text|article|document|background)\b.{0,12}:", re.IGNORECASE)
_ABOUT = re.compile(
    r":\s*\Z|\b(?:below|following|this|these|here'?s|my|draft|docstrings?|hints|tests?|summari[sz]e|translate|rewrite)\b",
    re.IGNORECASE,
)
_TASK = re.compile(
    r"\A(.{0,60}\b(?:this|these|following|below|text|sentence|translate|paraphrase|proofread|summari[sz]e|rewrite|fix|story|essay|typos|review|tweet|words|list"
    r"|übersetze|korrigiere|formuliere|traduce|corrige|reformule|traduis|переведи)\b[^:\n]{0,60}[::])\s.+",
    re.IGNORECASE | re.DOTALL,
)

_LETTER = re.compile(
    r"\s*(?:(?:hi|hello|hey|dear|good (?:morning|day|evening|afternoon)|hallo|liebe|guten|bonjour|hola|ciao|thanks?"
    r"|thank you|many thanks|cheers|regards|best|kind|yours|sincerely|have a|danke|viele grüße|gracias|merci)\b.{0,60}"
    r"|[\w.]+(?: [\w.]+){0,2})\s*",
    re.IGNORECASE,
)
"""A line that only greets, thanks, or is a name."""
_SENTENCE = re.compile(r"(?<=[.!;:])\s+")
_ORDER = re.compile(
    r"(?:(?:so|and|then|after that|afterwards|also|anyway|now|first|next|please|just|for [\w ]{2,30}),? )*"
    r"(?:please\b|can you|could you|would you|tell |give |find |look |show |write |draft |make |turn |translate "
    r"|summari|open |read |take |check|work out|figure|put |set |book |send |order |plan |lay |weigh|compare|list "
    r"|explain|help |reserve|cancel|rewrite|continue"
    r"|i (?:only |just |simply |really )?(?:need|want|would like|'d like|'m looking|wonder)"
    r"|i'd (?:only |just |simply )?(?:like|love|need)|with this letter i |the (?:only )?thing i need|they want"
    r"|what i (?:need|want)|all i (?:need|want)|let me know)",
    re.IGNORECASE,
)
"""A sentence that orders or asks without a question mark."""


def _table() -> np.ndarray:
    """Letters and digits make words; `?`, `!` and quotes are words, since they say how something is asked."""
    table = np.zeros(256, dtype=np.uint8)
    for byte in b"0123456789_'abcdefghijklmnopqrstuvwxyz?!":
        table[byte] = byte
    table[65:91] = table[97:123]
    table[128:] = np.arange(128, 256)
    return table


_WORDS = _table()


def features(prompts: Sequence[str]) -> "csr_matrix":
    """(n, COLUMNS) float32: what the classifier sees of each prompt."""
    from scipy.sparse import csr_matrix

    columns, values, ends = [], [], [0]
    for prompt in prompts:
        text = asked(prompt)
        row = cues(text, prompt)
        present = np.flatnonzero(row)
        words = utf8(text, _PUNCTUATION)
        grams = np.concatenate([ngram_hashes(words, _WORDS, 1), ngram_hashes(words, _WORDS, 2)])
        word_columns, word_values = _block(grams, WORD_BITS)
        char_columns, char_values = _block(_char_grams(text), CHAR_BITS)
        columns += [present, word_columns + len(NAMES), char_columns + len(NAMES) + (1 << WORD_BITS)]
        values += [row[present], word_values, char_values]
        ends.append(ends[-1] + len(present) + len(word_columns) + len(char_columns))
    if not columns:
        return csr_matrix(np.empty((0, COLUMNS), dtype=np.float32))
    return csr_matrix((np.concatenate(values), np.concatenate(columns), np.array(ends)), shape=(len(prompts), COLUMNS))


def asked(prompt: str) -> str:
    """The part of a prompt that asks: without code, long quotations, the passage it is about, the text to work on,
    and of several paragraphs without greetings and names, only what asks or orders, where anything does.

    At most a kilobyte; of a longer rest the first and the last half, where instructions stand.
    """
    text = plain(prompt)
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > 1:
        questions = [line for line in lines if _QUESTION.match(line)] or [line for line in lines if "?" in line]
        if not questions and not _ABOUT.search(lines[0]):
            lines = [line for line in lines if not _LETTER.fullmatch(line)] or lines
            questions = [part for line in lines for part in _SENTENCE.split(line) if _ORDER.match(part)]
        ends = lines[:1] if _ABOUT.search(lines[0]) else [lines[0], lines[-1]]
        rest = [line for line in ends if not _PASSAGE.match(line)]
        text = "\n".join(questions or dict.fromkeys(rest)) or lines[-1]
    task = _TASK.match(text)
    text = task.group(1) if task else text
    return _ends(text, HEAD)


def plain(prompt: str) -> str:
    """A prompt's beginning and end without code and long quotations."""
    return _QUOTED.sub(' "…" ', _CODE.sub(" `…` ", _ends(prompt, 16 * HEAD)))


def _ends(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size // 2]}\n{text[-size // 2 :]}"


def _char_grams(text: str) -> np.ndarray:
    codes = np.frombuffer(f" {' '.join(text.lower().split())} ".encode("utf-32-le", "replace"), dtype="<u4")
    codes = codes.astype(np.uint64)
    grams = []
    hashes = codes
    for n in _CHAR_NGRAMS:
        hashes = hashes[:-1] * _BASE + codes[n - 1 :]
        grams.append(hashes ^ (hashes >> np.uint64(29)))
    return np.concatenate(grams) * _BASE


def _block(grams: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and values of one block: each n-gram present counts once, the block has a fixed length."""
    columns = np.unique((grams >> np.uint64(64 - bits)).astype(np.uint32)).astype(np.int64)
    return columns, np.full(len(columns), _LENGTH / max(1, len(columns)) ** 0.5, dtype=np.float32)
