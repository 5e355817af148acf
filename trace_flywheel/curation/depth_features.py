"""A prompt as a sparse row: cues, hashed word 1-2-grams, hashed character 2-4-grams of the part of it that asks.

Where a long prompt is mostly a story around that part, the cues of the whole stand in columns of their own: rivals and
numbers are often named before the question.

Hashes are fixed arithmetic, so a feature has the same column on every machine and there is no vocabulary to store.
Each n-gram block has the same length, so that long prompts do not outweigh short ones.
"""

import re
from collections.abc import Sequence

import numpy as np

from trace_flywheel.curation.depth_asked import asked_in, plain, story
from trace_flywheel.curation.depth_cues import NAMES, TOLD, cues, told
from trace_flywheel.curation.depth_kernel import CHAR_BITS, WORD_BITS, blocks
from trace_flywheel.curation.sparse_rows import SparseRows
from trace_flywheel.curation.token_kernel import utf8

FEATURES_VERSION = 5
"""Goes up when a prompt gets other columns or values: weights of another version mean nothing then."""
COLUMNS = len(NAMES) + len(TOLD) + (1 << WORD_BITS) + (1 << CHAR_BITS)
GRAMS = range(len(NAMES) + len(TOLD), COLUMNS)
"""Columns of n-grams; before them stand the cues."""
_SHORT = [0.0] * len(TOLD)
_PUNCTUATION = re.compile(r"[^\w\x00-\x7f]+")


def _table() -> np.ndarray:
    """Letters and digits make words; `?`, `!` and quotes are words, since they say how something is asked."""
    table = np.zeros(256, dtype=np.uint8)
    for byte in b"0123456789_'abcdefghijklmnopqrstuvwxyz?!":
        table[byte] = byte
    table[65:91] = table[97:123]
    table[128:] = np.arange(128, 256)
    return table


_WORDS = _table()


def features(prompts: Sequence[str]) -> SparseRows:
    """What the classifier sees of each prompt, `COLUMNS` wide."""
    whole = [plain(prompt) for prompt in prompts]
    texts = [asked_in(text) for text in whole]
    counts = cues(texts, prompts)
    stories = [story(text, part) for text, part in zip(whole, texts, strict=True)]
    of_story = np.array([told(text) if text else _SHORT for text in stories], dtype=np.float32)
    shape = np.log1p(np.hstack([counts, of_story.reshape(len(texts), len(TOLD))]))
    spaced = [f" {' '.join(text.lower().split())} " for text in texts]
    ends, columns, values = blocks([utf8(text, _PUNCTUATION) for text in texts], spaced, _WORDS)
    return SparseRows.of_dense(shape).beside(SparseRows(ends, columns, values, len(GRAMS)))
