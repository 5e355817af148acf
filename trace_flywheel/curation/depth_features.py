"""A prompt as a sparse row: cues, hashed word 1-2-grams, hashed character 2-4-grams of its first kilobyte.

Hashes are fixed arithmetic, so a feature has the same column on every machine and there is no vocabulary to store.
Each n-gram block has the same length, so that long prompts do not outweigh short ones.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trace_flywheel.curation.depth_cues import NAMES, cues
from trace_flywheel.curation.depth_kernel import CHAR_BITS, WORD_BITS, blocks
from trace_flywheel.curation.token_kernel import utf8

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FEATURES_VERSION = 2
"""Goes up when a prompt gets other columns or values: weights of another version mean nothing then."""
HEAD = 1024
"""Characters that are read: what is asked stands at a prompt's start or, of a long one, at its end."""
COLUMNS = len(NAMES) + (1 << WORD_BITS) + (1 << CHAR_BITS)
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
    r"|übersetze|korrigiere|formuliere|traduce|corrige|reformule|traduis|переведи)\b[^:\n]{0,60}:)\s.+",
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
    from scipy.sparse import csr_matrix, hstack

    texts = [asked(prompt) for prompt in prompts]
    counts = [cues(text, prompt) for text, prompt in zip(texts, prompts, strict=True)]
    shape = np.log1p(np.array(counts, dtype=np.float32).reshape(len(texts), len(NAMES)))
    spaced = [f" {' '.join(text.lower().split())} " for text in texts]
    ends, columns, values = blocks([utf8(text, _PUNCTUATION) for text in texts], spaced, _WORDS)
    grams = csr_matrix((values, columns, ends), shape=(len(texts), COLUMNS - len(NAMES)))
    return hstack([csr_matrix(shape), grams], format="csr")


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
    task = _TASK.match(text) if ":" in text else None
    text = task.group(1) if task else text
    return _ends(text, HEAD)


def plain(prompt: str) -> str:
    """A prompt's beginning and end without code and long quotations."""
    return _QUOTED.sub(' "…" ', _CODE.sub(" `…` ", _ends(prompt, 16 * HEAD)))


def _ends(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size // 2]}\n{text[-size // 2 :]}"
