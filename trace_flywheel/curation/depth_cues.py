"""Cues of a prompt's depth: word lists in the languages people ask in, and what the prompt looks like.

n-grams learn the words of the seed set; cues carry over to words that it does not have. Every cue is a count, damped
by log(1 + n). Lists are by meaning and hold inflected forms; CJK and Korean cues are substrings, as words there have no
blanks around them.
"""

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import pairwise

import numpy as np

from trace_flywheel.curation.depth_patterns import (
    AT_A_TIME,
    CLAUSE,
    LABEL,
    LABELLED,
    NESTED,
    NUMBER,
    OVER,
    RESULT,
    RIVALS,
    ROMANCE_SUPERLATIVE,
    SLASHED,
    SMALLTALK,
    VAGUE_OR,
    WORD,
)

_CUES = tomllib.loads((files("trace_flywheel.curation") / "depth_cues.toml").read_text("utf-8"))
_LISTS: dict[str, str] = _CUES["words"]
_SUBSTRINGS: dict[str, list[str]] = _CUES["pieces"]
_OPENERS = frozenset(_LISTS.pop("openers").split())
_OF = frozenset(_LISTS.pop("of").split())
_JOINING = frozenset(_LISTS.pop("joining").split())
_SMALL = frozenset(_LISTS.pop("small").split())
"""Words one of which smalltalk has."""
_KINDS = {name: i for i, name in enumerate(_LISTS)}
_BY_WORD: dict[str, list[int]] = {}
for _name, _words in _LISTS.items():
    for _word in sorted(set(_words.split())):
        _BY_WORD.setdefault(_word, []).append(_KINDS[_name])
_BY_PIECE = [(_KINDS[name], piece) for name, pieces in _SUBSTRINGS.items() for piece in pieces]
_PIECE_STARTS = frozenset(piece[0] for _, piece in _BY_PIECE)


_ORDERS = frozenset((_KINDS["agent"], _KINDS["command"]))
_ASKS = _KINDS["ask"]
LONG = 5.0
"""From here on a longer text counts no longer: people who tell more do not ask more."""
_BLANKS = bytes(i if chr(i).isalnum() or chr(i) in "_'" else 32 for i in range(128)) + bytes(128)
"""ASCII with blanks for what stands between words."""
_OR, _THAN, _PREFER, _SIDE = (_KINDS[name] for name in ("or", "than", "prefer", "side"))
_COMPARATIVE, _SUPERLATIVE = _KINDS["comparative"], _KINDS["superlative"]
_WHOLE = 4096
"""Characters of a prompt that are looked through for numbers and lines."""
_FIRST = ("ask", "yes_no", "agent", "make", "greet", "command", "want", "self")
_SHAPE = (
    "questions", "code", "quoted", "lines", "colon", "digits", "possessive", "of", "chars", "words", "rivals", "commas",
    "labelled_pair", "smalltalk", "nested", "asked_of_a_time", "numbers", "chain", "slash_rivals", "over",
    "whole_numbers", "whole_lines", "code_result", "orders", "asking_clauses",
)  # fmt: skip
_COUNTED = (*_LISTS, *(f"first_{name}" for name in _FIRST), *_SHAPE)
_JOINT = (
    "question", "few", "or_question", "or_prefer", "than_comparative", "two_asks", "relation_ask", "relation_place",
    "two_relations", "agent_steps", "agent_sequence", "superlative_alone", "make_piece", "digits_ask",
    "which_comparative", "command_only", "you_ask", "self_no_ask", "no_ask", "independent", "one_look_up",
    "all_numbers", "nothing_asked", "several_orders", "several_asks", "two_sides",
)  # fmt: skip
NAMES = (*_COUNTED, *_JOINT)
"""What each column counts."""
TOLD = (
    "versus", "prefer", "than", "comparative", "or", "pair", "side", "undecided", "number", "number_words", "make",
    "piece", "agent", "sequence", "carry", "relation", "numbers", "rivals", "slash_rivals", "over", "or_prefer",
    "than_comparative", "two_sides",
)  # fmt: skip
"""What is counted of a whole story: what it names, not how long it is."""
_FIRST_KINDS = tuple(_KINDS[name] for name in _FIRST)
_TOLD_KINDS = tuple(_KINDS[name] for name in TOLD if name in _KINDS)


def told(text: str) -> list[float]:
    """The counts of a story, in the order of `TOLD`."""
    lower = text.lower()
    _, counts = _counted(text, lower)
    own = [counts[kind] for kind in _TOLD_KINDS]
    shape = (
        len(NUMBER.findall(lower)),
        RIVALS.count(text),
        SLASHED.found(text),
        OVER.found(text),
        counts[_OR] > 0 and counts[_PREFER] + counts[_COMPARATIVE] > 0,
        counts[_THAN] > 0 and counts[_COMPARATIVE] > 0,
        counts[_SIDE] > 1,
    )
    return [*own, *shape]


def _counted(text: str, lower: str) -> tuple[list[str], list[int]]:
    """The words of a text, and how many of each kind it has."""
    if lower.isascii():
        plain = lower.encode().translate(_BLANKS).decode()
        spelled = words = (plain.replace("' ", " ").replace(" '", " ") if "'" in plain else plain).split()
    else:
        words = WORD.findall(lower)
        spelled = [word.replace("’", "'") for word in words] if "’" in lower else words
    counts = [0] * len(_KINDS)
    for kinds in filter(None, map(_BY_WORD.get, spelled)):
        for kind in kinds:
            counts[kind] += 1
    if not text.isascii() and not _PIECE_STARTS.isdisjoint(text):
        for kind, piece in _BY_PIECE:
            counts[kind] += piece in text
    if counts[_OR] and (vague := len(VAGUE_OR.findall(lower))):
        counts[_OR] = max(0, counts[_OR] - vague)
    if ROMANCE_SUPERLATIVE.found(lower):
        counts[_SUPERLATIVE] += 1
        counts[_COMPARATIVE] = max(0, counts[_COMPARATIVE] - 1)
    return words, counts


def cues(texts: Sequence[str], prompts: Sequence[str]) -> np.ndarray:
    """The counts of what prompts ask, `texts`, and of the whole, not yet damped: (n, len(NAMES)) float32."""
    rows = [_cues(text, prompt) for text, prompt in zip(texts, prompts, strict=True)]
    counted = np.array(rows, dtype=np.float32).reshape(len(texts), len(_COUNTED))
    joint = _joint(dict(zip(_COUNTED, counted.T, strict=True)))
    words = counted[:, _COUNTED.index("words")]
    np.minimum(words / 4, LONG, out=words)
    return np.column_stack([counted, *joint]).astype(np.float32)


def _joint(n: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What several counts say together, in the order of `_JOINT`; for all prompts at once."""
    asks, few = n["questions"] > 0, n["words"] <= 8
    asked = n["ask"] + n["yes_no"]
    number = n["numbers"] + n["number_words"]
    n["whole_numbers"][~(asks | (n["ask"] > 0))] = 0
    return [
        asks,
        n["words"] <= 3,
        (n["or"] > 0) & (asks | (asked > 0)),
        (n["or"] > 0) & (n["prefer"] + n["comparative"] > 0),
        (n["than"] > 0) & (n["comparative"] > 0),
        n["ask"] >= 2,
        (n["relation"] > 0) & (n["ask"] > 0),
        (n["relation"] > 0) & (n["place"] > 0),
        n["relation"] >= 2,
        n["agent"] >= 2,
        (n["agent"] > 0) & (n["sequence"] > 0),
        (n["superlative"] > 0) & (n["or"] + n["versus"] == 0),
        (n["make"] > 0) & (n["piece"] > 0),
        (n["ask"] > 0) & (n["numbers"] >= 2),
        (n["comparative"] > 0) & (n["superlative"] == 0) & (asked > 0),
        (n["command"] > 0) & (n["sequence"] == 0) & few,
        (n["you"] > 0) & asks & few,
        (n["self"] > 0) & (n["want"] + n["ask"] == 0) & ~asks,
        (asked + n["want"] == 0) & ~asks,
        (n["ask"] >= 2) & (n["carry"] == 0) & (n["sequence"] == 0),
        (n["agent"] == 1) & (n["sequence"] + n["carry"] + n["and"] == 0),
        number,
        (n["whole_lines"] > 0) & ~asks & (asked + n["want"] + n["agent"] + n["make"] + n["command"] == 0),
        n["orders"] > 1,
        n["asking_clauses"] > 1,
        n["side"] > 1,
    ]


def _cues(text: str, prompt: str) -> list[float]:
    lower = text.lower()
    words, counts = _counted(text, lower)
    first = next((_BY_WORD.get(word, ()) for word in words if word not in _OPENERS), ())
    clauses = [*words[:1], *CLAUSE.findall(lower), *(b for a, b in pairwise(words) if a in _JOINING)]
    opening = [kinds for kinds in map(_BY_WORD.get, clauses) if kinds]
    return [
        *counts,
        *[kind in first for kind in _FIRST_KINDS],
        text.count("?") + (0 if text.isascii() else text.count("？") + text.count("؟")),
        "`" in text or "):" in text or "};" in text,
        '"' in text or "“" in text or "„" in text or "«" in text,
        text.count("\n"),
        ":" in text,
        sum(map(str.isdigit, words)),
        text.count("'s ") + text.count("’s "),
        sum(map(_OF.__contains__, words)),
        min(len(text) / 20, LONG),
        len(words),
        RIVALS.count(text),
        text.count(","),
        LABEL.search(lower) is not None and LABELLED.search(lower) is not None,
        not _SMALL.isdisjoint(words) and SMALLTALK.search(lower, 0, 80) is not None,
        NESTED[NESTED[1].may_match(lower)].count(f" {lower}"),
        AT_A_TIME.found(lower),
        len(NUMBER.findall(lower)),
        0 if text.isascii() else text.count("的") + text.count("の"),
        SLASHED.found(text),
        OVER.found(text),
        len(NUMBER.findall(prompt[:_WHOLE])),
        prompt.count("\n", 0, _WHOLE),
        "```" in prompt and RESULT.search(lower) is not None,
        sum(not _ORDERS.isdisjoint(kinds) for kinds in opening),
        sum(_ASKS in kinds for kinds in opening),
    ]
