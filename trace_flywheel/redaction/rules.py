"""Rules as data: what is a finding, in TOML files that people can read and extend.

A rule has a cheap *detector* (a necessary condition over raw text, a Hyperscan expression led by a literal) and a
linear-time *confirm* pattern (RE2) whose group is the value, then named validators. `anchors` + `body` is the short
form for prefixed tokens: the detector is anchor and the first characters of the body, the confirm pattern the whole.

Detectors have no leading word boundary and no unbounded tail: arguments are JSON inside JSON, so a token after a line
break reads `\\nghp_…`, and a detector's tail costs speed on every byte.
"""

import hashlib
import re
import tomllib
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.redaction.validators import VALIDATORS

Profile = Literal["secret", "standard", "all"]
PROFILES: dict[str, tuple[Profile, ...]] = {
    "none": ("secret",),
    "standard": ("secret", "standard"),
    "all": ("secret", "standard", "all"),
}
LEAD = r"(?:\b|_|\\[nrtfbv]|\\u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|\[[0-9;]*[mK])"
"""Where a token may start: at a word boundary, after an underscore, or after an escape (JSON, URL, terminal) whose last
letter hides it."""
DETECTED_BODY = 12
"""Characters of a body that a detector looks at; the confirm pattern looks at all."""


MARK_NAME = re.compile(r"[a-z0-9_]+")
"""What a placeholder can hold."""


class RuleError(FlywheelError, ValueError):
    """A rule file that cannot be used: the message names file, rule and fault."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    """Stands in the placeholder: `[REDACTED:<name>:<n>]`."""
    family: str = ""
    """The file's, where the rule gives none."""
    profile: Profile = "secret"
    anchors: tuple[str, ...] = ()
    """Literals of which one occurs in every match."""
    body: str = ""
    """RE2 class with a repeat that follows the anchor."""
    detect: str = ""
    confirm: str = ""
    """RE2; the first group that took part is the value, a group called `name` is the name it was assigned to. `{LEAD}`
    stands for where a token may start."""
    check: tuple[str, ...] = ("real",)
    """Validators, all of which must agree."""
    context: str = ""
    """RE2 that must match in the `CONTEXT` bytes before the value."""
    unless: str = ""
    """RE2 that must not match in the `CONTEXT` bytes before the name, or before the value of a rule without names."""
    database: Literal["literal", "digits", "dashes", "groups", "network"] = "literal"
    """Detectors that start with a class live in databases of their own: together they would slow each other down."""
    lead: int = 96
    """Bytes before a detector's match end in which the confirm pattern may start."""
    reach: int = 400
    """Bytes after it that the confirm pattern sees at first; a match that touches the end is looked at again."""
    examples: tuple[str, ...] = ()
    """Templates: `{a36}` is 36 letters and digits, see `expand`. No file holds what looks like a live token."""
    near: tuple[str, ...] = ()
    """Templates of near misses: no finding of this rule."""

    def expression(self) -> str:
        """The detector."""
        if self.detect:
            return self.detect
        match = re.match(r"(.*?\])\{(\d+)(?:,\d*)?\}", self.body)
        if match is None:
            raise RuleError(f"{self.name}: body needs the form [class]{{n,m}}…, or give detect and confirm")
        return f"{self._anchor()}{match[1]}{{{min(int(match[2]), DETECTED_BODY)}}}"

    def pattern(self) -> str:
        """The confirm pattern."""
        return self.confirm.replace("{LEAD}", LEAD) or f"{LEAD}({self._anchor()}{self.body})"

    def _anchor(self) -> str:
        return "(?:" + "|".join(re.escape(a) for a in self.anchors) + ")"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    family: str
    rule: list[Rule]


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule of the package, in order of precedence: files by name, rules as they stand."""
    found: list[Rule] = []
    for file in sorted(resources.files("trace_flywheel.redaction.ruleset").iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            found += parse(file.read_text("utf-8"), file.name)
    names = [rule.name for rule in found]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise RuleError(f"two rules are called {twice[0]}")
    return tuple(found)


def parse(text: str, where: str) -> list[Rule]:
    """The rules of one TOML document (`[[rule]]` tables)."""
    try:
        file = msgspec.convert(tomllib.loads(text), _File)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise RuleError(f"{where}: {error}") from None
    found = [rule if rule.family else msgspec.structs.replace(rule, family=file.family) for rule in file.rule]
    for rule in found:
        if unknown := [c for c in rule.check if c not in VALIDATORS]:
            raise RuleError(f"{where}: {rule.name}: unknown validator {unknown[0]!r}; known: {', '.join(VALIDATORS)}")
        if not (rule.anchors and rule.body) and not (rule.detect and rule.confirm):
            raise RuleError(f"{where}: {rule.name}: give anchors and body, or detect and confirm")
    return found


def rules_of(pii: str) -> tuple[Rule, ...]:
    """The rules in force: secrets always, personal data by profile `none`, `standard` or `all`."""
    if pii not in PROFILES:
        raise ValueError(f"pii {pii!r} is none of {', '.join(PROFILES)}")
    return tuple(rule for rule in rules() if rule.profile in PROFILES[pii])


_ALPHABETS = {
    "a": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    "l": "abcdefghijklmnopqrstuvwxyz0123456789",
    "u": "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "d": "0123456789",
    "b": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    "w": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
    "z": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
}


def expand(template: str, seed: str = "") -> str:
    """A template's text: `{a36}` letters and digits, `{l}`/`{u}` lower/upper ones, `{h}`/`{H}` hex, `{d}` digits, `{b}`
    base64, `{w}` base64url, `{z}` letters; `{|}` is empty, to cut a literal in two. The same seed gives the same text.
    """
    count = 0

    def fill(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        alphabet, size = _ALPHABETS[match[1]], int(match[2])
        stream = hashlib.shake_256(f"{seed}\0{template}\0{count}".encode()).digest(2 * size)
        return "".join(alphabet[int.from_bytes(stream[2 * i : 2 * i + 2]) % len(alphabet)] for i in range(size))

    return re.sub(r"\{([aluhHdbwz])(\d+)\}", fill, template).replace("{|}", "")
