"""Patterns of how prompts are put, in the languages people ask in: rivals, clauses, smalltalk, nested descriptions.

They are looked for in every prompt, so each is guarded or begins with a character to look for.
"""

import re
from typing import NamedTuple


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
NUMBER = re.compile(r"\d(?<!\w\d)")
WORD = re.compile(r"\w+(?:['’]\w+)?")
RIVALS = Guarded(
    (" or ", " and ", " vs", " oder ", " und ", " o ", " y ", " ou ", " et ", " или ", " и ", " e ", " versus "),
    re.compile(
        r"[A-Z0-9](?<!\w.)[\w.+#-]*(?: [\w.+#-]+){0,3},? (?:or|and|vs\.?|versus|oder|und|o|y|ou|et|или|и|e) "
        r"(?:[\w.+#-]+ ){0,2}[A-Z0-9]"
    ),
)
LABEL = re.compile(r"[b2tv](?<!\w.)(?:(?<=[b2])|(?<=t)wo|(?<=v)2)\b")
LABELLED = re.compile(r"\b(\w+) (?:a|1|one)\b.*\b\1 (?:b|2|two)\b|\(1\).*\(2\)|\ba:.*\bb:|v1\b.*\bv2\b", re.DOTALL)
SMALLTALK = re.compile(
    r"\bhow(?:'s| is| are| was| were| did| do)? (?:you|your|u|things|it going|it go)\b|what'?s up\b|wie geht"
    r"|cómo (?:estás|va)|come (?:stai|va)|ça va|как (?:дела|настроение)|最近怎么样|你好吗|元気|tudo bem|qué tal"
)
_NESTED_ENGLISH = r" (?:the|a|whoever|of|in|by) (?:[\w'-]+ ){0,3}(?:who|that|where|which|whose|whom|whoever)\b"
NESTED = (
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
AT_A_TIME = Guarded(
    ("when", "in that year", "at that time"),
    re.compile(r"\b(?:who|how old|what|which)\b.{3,40}\b(?:when|in that year|at that time)\b"),
)
ROMANCE_SUPERLATIVE = Guarded(
    ("más", "plus", "più", "mais"),
    re.compile(r"\b(?:el|la|los|las|le|les|il|lo|i|l'|o|a) ?(?:\w+ ){0,2}(?:más|plus|più|mais)\b"),
)
SLASHED = Guarded((" / ", " v "), re.compile(r"\w (?:/|v) \w"))
"""Rivals set side by side, as people type them: `tea / coffee`, `s23 v s24`."""
OVER = Guarded(
    (" over ", " instead of ", " rather than ", " against ", " next to ", " behind "),
    re.compile(
        r"[A-Z](?<!\w.)\w*(?: [\w.]+){0,2} (?:over|instead of|rather than|against|next to|behind) (?:the |a )?[A-Z]"
    ),
)
VAGUE_OR = re.compile(
    r"or (?<!\wor )(?:not|so|other|whatever|something|anything|maybe|perhaps|rather|else|more|less|at least|like|was it"
    r"|is it|some|what|two|such|no)\b"
)
"""No alternative."""
CLAUSE = re.compile(r"[.,;:!?\n] *(?:please |also |then |so )?(\w+)")
"""The first words of clauses, but of the first and after a joining word."""
RESULT = re.compile(r"\b(?:prints?|outputs?|returns?|logs?|value|result|trace|evaluates?)\b")
