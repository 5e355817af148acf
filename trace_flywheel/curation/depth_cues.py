"""Cues of a prompt's depth: word lists in the languages people ask in, and what the prompt looks like.

n-grams learn the words of the seed set; cues carry over to words that it does not have. Every cue is a count, damped
by log(1 + n). Lists are by meaning and hold inflected forms; CJK and Korean cues are substrings, as words there have no
blanks around them.
"""

import re
import tomllib
from importlib.resources import files
from typing import NamedTuple

_CUES = tomllib.loads((files("trace_flywheel.curation") / "depth_cues.toml").read_text("utf-8"))
_LISTS: dict[str, str] = _CUES["words"]
_SUBSTRINGS: dict[str, list[str]] = _CUES["pieces"]
_OPENERS = frozenset(_LISTS.pop("openers").split())
_OF = frozenset(_LISTS.pop("of").split())
_KINDS = {name: i for i, name in enumerate(_LISTS)}
_BY_WORD: dict[str, list[int]] = {}
for _name, _words in _LISTS.items():
    for _word in sorted(set(_words.split())):
        _BY_WORD.setdefault(_word, []).append(_KINDS[_name])
_BY_PIECE = [(_KINDS[name], piece) for name, pieces in _SUBSTRINGS.items() for piece in pieces]
_PIECE_STARTS = frozenset(piece[0] for _, piece in _BY_PIECE)


class Guarded(NamedTuple):
    """A pattern that needs one of `literals` to match: texts without any, most of them, are not looked through."""

    literals: tuple[str, ...]
    pattern: re.Pattern[str]

    def may_match(self, text: str) -> bool:
        for literal in self.literals:  # noqa: SIM110 - as a generator it takes three times as long
            if literal in text:
                return True
        return False

    def found(self, text: str) -> bool:
        return self.may_match(text) and self.pattern.search(text) is not None

    def count(self, text: str) -> int:
        return len(self.pattern.findall(text)) if self.may_match(text) else 0


# Patterns that begin with a character to look for are fast; `\b` before it would be tried everywhere. `x(?<!\w.)` is
# `\bx`, asked once x was found.
_NUMBER = re.compile(r"\d(?<!\w\d)")
_WORD = re.compile(r"\w+(?:['’]\w+)?")
_RIVALS = Guarded(
    (" or ", " and ", " vs", " oder ", " und ", " o ", " y ", " ou ", " et ", " или ", " и ", " e ", " versus "),
    re.compile(
        r"[A-Z0-9](?<!\w.)[\w.+#-]*(?: [\w.+#-]+){0,3},? (?:or|and|vs\.?|versus|oder|und|o|y|ou|et|или|и|e) "
        r"(?:[\w.+#-]+ ){0,2}[A-Z0-9]"
    ),
)
_LABEL = re.compile(r"[b2tv](?<!\w.)(?:(?<=[b2])|(?<=t)wo|(?<=v)2)\b")
_LABELLED = re.compile(r"\b(\w+) (?:a|1|one)\b.*\b\1 (?:b|2|two)\b|\(1\).*\(2\)|\ba:.*\bb:|v1\b.*\bv2\b", re.DOTALL)
_SMALLTALK = re.compile(
    r"\bhow(?:'s| is| are| was| were| did| do)? (?:you|your|u|things|it going|it go)\b|what'?s up\b|wie geht"
    r"|cómo (?:estás|va)|come (?:stai|va)|ça va|как (?:дела|настроение)|最近怎么样|你好吗|元気|tudo bem|qué tal"
)
_NESTED_ENGLISH = r"\b(?:the|a|whoever|of|in|by) (?:[\w'-]+ ){0,3}(?:who|that|where|which|whose|whom|whoever)\b"
_NESTED = (
    Guarded((" who", " that", " where", " which"), re.compile(_NESTED_ENGLISH)),
    Guarded(
        (
            *(", d", ", w", ", in der", ", bei dem", ", где", ", котор"),
            *(" donde", " que", " où", " qui", " dove", " che", " onde", " cuy"),
        ),
        re.compile(
            rf"{_NESTED_ENGLISH}"
            r"|\b(?:des|der|die|das|dem) (?:\w+ )?\w+, (?:der|die|das|wo|dem|den|in der|bei dem)\b"
            r"|\b(?:del|de la|de|la|el|le|du|il|do|da|o|a) \w+ (?:donde|que|où|qui|dove|che|onde|cuyo|cuya)\b"
            r"|, (?:где|который|которая|которую|которого)\b"
        ),
    ),
)
"""In English, and in whatever language: an English text without a word of the others needs the first alone."""
_AT_A_TIME = Guarded(
    ("when", "in that year", "at that time"),
    re.compile(r"\b(?:who|how old|what|which)\b.{3,40}\b(?:when|in that year|at that time)\b"),
)
_ROMANCE_SUPERLATIVE = Guarded(
    ("más", "plus", "più", "mais"),
    re.compile(r"\b(?:el|la|los|las|le|les|il|lo|i|l'|o|a) ?(?:\w+ ){0,2}(?:más|plus|più|mais)\b"),
)
_SLASHED = Guarded((" / ", " v "), re.compile(r"\w (?:/|v) \w"))
"""Rivals set side by side, as people type them: `tea / coffee`, `s23 v s24`."""
_OVER = Guarded(
    (" over ", " instead of ", " rather than ", " against ", " next to ", " behind "),
    re.compile(
        r"[A-Z](?<!\w.)\w*(?: [\w.]+){0,2} (?:over|instead of|rather than|against|next to|behind) (?:the |a )?[A-Z]"
    ),
)
_RESULT = re.compile(r"\b(?:prints?|outputs?|returns?|logs?|value|result|trace|evaluates?)\b")
_WHOLE = 4096
"""Characters of a prompt that are looked through for numbers and lines."""
_FIRST = ("ask", "yes_no", "agent", "make", "greet", "command", "want", "self")
_SHAPE = (
    "question", "questions", "code", "quoted", "lines", "colon", "digits", "possessive", "of", "chars", "words", "few",
    "rivals", "or_question", "or_prefer", "than_comparative", "two_asks", "relation_ask", "relation_place",
    "two_relations", "agent_steps", "agent_sequence", "superlative_alone", "make_piece", "commas",
    "labelled_pair", "digits_ask", "which_comparative", "command_only", "you_ask", "self_no_ask", "no_ask",
    "smalltalk", "nested", "asked_of_a_time", "independent", "one_look_up", "numbers", "chain",
    "slash_rivals", "over", "whole_numbers", "whole_lines", "nothing_asked", "code_result",
)  # fmt: skip
NAMES = (*_LISTS, *(f"first_{name}" for name in _FIRST), *_SHAPE)
"""What each column counts."""


def cues(text: str, prompt: str) -> list[float]:
    """The counts of what a prompt asks, `text`, and of the whole, not yet damped, in the order of `NAMES`."""
    lower = text.lower()
    words = _WORD.findall(lower)
    numbers = len(_NUMBER.findall(lower))
    counts = [0] * len(_KINDS)
    spelled = [word.replace("’", "'") for word in words] if "’" in lower else words
    for kinds in filter(None, map(_BY_WORD.get, spelled)):
        for kind in kinds:
            counts[kind] += 1
    if not text.isascii() and not _PIECE_STARTS.isdisjoint(text):
        for kind, piece in _BY_PIECE:
            counts[kind] += piece in text
    n = dict(zip(_KINDS, counts, strict=True))
    if _ROMANCE_SUPERLATIVE.found(lower):
        n["superlative"] += 1
        n["comparative"] = max(0, n["comparative"] - 1)
    first = next((_BY_WORD.get(word, ()) for word in words if word not in _OPENERS), ())
    asks = text.count("?") + text.count("？") + text.count("؟")
    alternatives = n["or"] + n["versus"] > 0
    shape = (
        asks > 0,
        asks,
        "```" in text or "`" in text or "):" in text or "};" in text,
        text.count('"') + text.count("“") + text.count("„") + text.count("«") >= 1,
        text.count("\n"),
        ":" in text,
        sum(map(str.isdigit, words)),
        text.count("'s ") + text.count("’s "),
        sum(map(_OF.__contains__, words)),
        len(text) / 20,
        len(words) / 4,
        len(words) <= 3,
        _RIVALS.count(text),
        n["or"] > 0 and (asks > 0 or n["ask"] > 0 or n["yes_no"] > 0),
        n["or"] > 0 and n["prefer"] + n["comparative"] > 0,
        n["than"] > 0 and n["comparative"] > 0,
        n["ask"] >= 2,
        n["relation"] > 0 and n["ask"] > 0,
        n["relation"] > 0 and n["place"] > 0,
        n["relation"] >= 2,
        n["agent"] >= 2,
        n["agent"] > 0 and n["sequence"] > 0,
        n["superlative"] > 0 and not alternatives,
        n["make"] > 0 and n["piece"] > 0,
        text.count(","),
        _LABEL.search(lower) is not None and _LABELLED.search(lower) is not None,
        n["ask"] > 0 and numbers >= 2,
        n["comparative"] > 0 and n["superlative"] == 0 and n["ask"] + n["yes_no"] > 0,
        n["command"] > 0 and n["sequence"] == 0 and len(words) <= 8,
        n["you"] > 0 and asks > 0 and len(words) <= 8,
        n["self"] > 0 and n["want"] + n["ask"] == 0 and asks == 0,
        n["ask"] + n["yes_no"] + n["want"] == 0 and asks == 0,
        _SMALLTALK.search(lower, 0, 80) is not None,
        _NESTED[_NESTED[1].may_match(lower)].count(lower),
        _AT_A_TIME.found(lower),
        n["ask"] >= 2 and n["carry"] == 0 and n["sequence"] == 0,
        n["agent"] == 1 and n["sequence"] + n["carry"] + n["and"] == 0,
        numbers + n["number_words"],
        text.count("的") + text.count("の"),
        _SLASHED.found(text),
        _OVER.found(text),
        len(_NUMBER.findall(prompt[:_WHOLE])) if asks or n["ask"] else 0,
        prompt.count("\n", 0, _WHOLE),
        "\n" in prompt and not asks + n["ask"] + n["want"] + n["agent"] + n["make"] + n["command"] + n["yes_no"],
        "```" in prompt and _RESULT.search(lower) is not None,
    )
    starts = [_KINDS[name] in first for name in _FIRST]
    return [*n.values(), *starts, *shape]
