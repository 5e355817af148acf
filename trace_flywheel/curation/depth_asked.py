"""The part of a prompt that asks: the rest is what it is about, who greets whom, and how it came to be asked."""

import re

HEAD = 1024
"""Characters that are read: what is asked stands at a prompt's start or, of a long one, at its end."""
LONG, TAIL = 180, 260
"""Characters from which one paragraph is a story with a question in it, and how much of its end is read then; chosen by
cross-validation."""
STORY = 0.7
"""Share of a long prompt that asks below which the rest is a story that may name rivals and numbers."""
ODD = 0.15
"""Share of digits and signs from which a line is no sentence but a program's output, a table or code."""
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(r"[\"“„«「『][^\"”“»」』]*(?:[\"”“»」』]|\Z)")
_LONG_QUOTE = 24
"""Characters from which a quotation is a passage and not a name or a word."""
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
_WISH = frozenset(
    {"i'd", "want", "wants", "need", "needs", "wonder", "help", "mind", "torn", "decide", "choose", "turn", "could"}
    | {"would", "please", "settle", "draft", "rank"}
)
"""Words of a sentence that wishes for something."""
_MACHINE = re.compile(
    r"\s*(?:\$ |>>> |#!|//|/\*|at \S+\(|file \"|traceback|npm |error\b|warn(?:ing)?\b|fatal\b|\[?\d{1,4}[-:./]\d\d"
    r"|diff |@@ |</?\w|[{}\])|]|import |from \w+ import|def |class |return\b|const |let |var |public |private "
    r"|function |select |insert |update )",
    re.IGNORECASE,
)
"""How lines begin that people paste: prompts of a shell, stack traces, logs, code."""
_SIGN = re.compile(r"[^\w\s.,'’!?…-]|[\d_]")


def asked(prompt: str) -> str:
    """The part of a prompt that asks: without code, long quotations, the passage it is about, the text to work on,
    and of several paragraphs without greetings and names, only what asks or orders, where anything does.

    At most a kilobyte; of a longer rest the first and the last half, where instructions stand.
    """
    return asked_in(plain(prompt))


def asked_in(text: str) -> str:
    """`asked` of a prompt that is `plain` already."""
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
    return _asking(_ends(text, HEAD))


def plain(prompt: str) -> str:
    """A prompt's beginning and end without code, long quotations and, where it says more, pasted lines."""
    text = _without_pasted(_ends(prompt, 16 * HEAD))
    return _QUOTED.sub(_shortened, _CODE.sub(" `…` ", text))


def _shortened(quoted: re.Match[str]) -> str:
    return quoted[0] if len(quoted[0]) < _LONG_QUOTE + 2 else ' "…" '


def _without_pasted(text: str) -> str:
    """Runs of pasted lines, each as one sign of code."""
    if "\n" not in text:
        return text
    lines = text.split("\n")
    pasted = [_is_pasted(line) for line in lines]
    if not any(pasted) or all(p or not line.strip() for p, line in zip(pasted, lines, strict=True)):
        return text
    left: list[str] = []
    for line, gone in zip(lines, pasted, strict=True):
        if not gone:
            left.append(line)
        elif not left or left[-1] != "`…`":
            left.append("`…`")
    return "\n".join(left)


def _is_pasted(line: str) -> bool:
    if not line.strip() or line.rstrip().endswith("?"):
        return False
    signs = len(_SIGN.findall(line))
    return signs > ODD * len(line) or (signs > 0 and _MACHINE.match(line) is not None)


def _asking(text: str) -> str:
    """Of a long paragraph the sentences that ask or order, else the last two that wish for something or the last two
    of all; of these the end."""
    if len(text) <= LONG:
        return text
    parts = _SENTENCE.split(text)
    asking = [i for i, part in enumerate(parts) if "?" in part or _ORDER.match(part)]
    if not asking:
        asking = [i for i, part in enumerate(parts) if not _WISH.isdisjoint(part.lower().split())][-2:] or [
            *range(len(parts))
        ][-2:]
    return " ".join(parts[i] for i in asking)[-TAIL:]


def story(text: str, part: str) -> str:
    """The end of a long plain prompt; empty where it is short or `part`, what asks, is most of it."""
    return text[-HEAD:] if len(text) > LONG and len(part) < STORY * len(text) else ""


def _ends(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size // 2]}\n{text[-size // 2 :]}"
