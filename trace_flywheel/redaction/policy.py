"""What is redacted, beyond the profile: a user's own rules, and the values that somebody has decided may stay.

A policy is plain data: it travels to worker processes, and equal policies share one redactor. Its digest is that of
everything that changes what is redacted; the key of fingerprints is no part of it.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import re2

from trace_flywheel.redaction.rules import MARK_NAME, Rule, RuleError, expand, parse, rules, rules_of
from trace_flywheel.redaction.scanner import Scanner, ScannerError

PROBES = ("{a36}", "{d16}", "{h40}", "Q{a8}!{a8}")
"""Values of different kinds; a pattern that allows all of them names none."""


DECISIONS = 2
"""Of the code that decides about a value beside the rules (assignments, joints, wrapping). Raise it where it decides
otherwise: what homes hold is then redacted anew."""


class Allow(msgspec.Struct, frozen=True):
    """A value that stays, by exactly one of `pattern` (RE2, the whole value) and `fingerprint`, and why."""

    reason: str
    pattern: str = ""
    fingerprint: str = ""


class Policy(msgspec.Struct, frozen=True):
    """Profile, a user's rules, allowed values, and the key under which values are fingerprinted."""

    pii: str = "standard"
    rules: tuple[Rule, ...] = ()
    allow: tuple[Allow, ...] = ()
    key: bytes = b""
    """Empty: no fingerprints are made and none is allowed by."""
    second_gate: Literal["none", "kingfisher"] = "none"
    """Who else looks at finished rows (`Redactor.scan`)."""

    def in_force(self) -> tuple[Rule, ...]:
        """A user's rules first: they are the more special ones."""
        return (*self.rules, *rules_of(self.pii))

    def digest(self) -> str:
        """Identity of what is redacted: part of whatever depends on it. Reasons and the key change nothing."""
        allowed = [(entry.pattern, entry.fingerprint) for entry in self.allow]
        more = [*([allowed] if allowed else []), *([self.second_gate] if self.second_gate != "none" else [])]
        told = msgspec.json.encode([DECISIONS, self.in_force(), *more])
        return hashlib.sha256(told).hexdigest()[:16]


def policy_named(policy: Policy | str) -> Policy:
    """A profile's name stands for the policy without additions."""
    return Policy(policy) if isinstance(policy, str) else policy


def fingerprint(key: bytes, value: str) -> str:
    """Tells equal values apart from others and gives none away: HMAC-SHA256 under the home's key, 16 hex digits."""
    return hmac.new(key, value.encode(), hashlib.sha256).hexdigest()[:16]


class Sighting(NamedTuple):
    """A replaced value, told without it."""

    place: str
    rule: str
    fingerprint: str
    """Empty where the policy has no key."""

    def of_kind(self) -> "Sighting":
        """With the kind of its place only: `message`, `exchange message`, `tools`, `rollout`."""
        return self._replace(place=re.sub(r" \d+", "", self.place))


def read_rules(paths: Sequence[Path]) -> tuple[Rule, ...]:
    """A user's rule files, in order. Raises `RuleError` with file, rule and fault, also for a failing example."""
    found: list[Rule] = []
    for path in paths:
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RuleError(f"{path}: rule file cannot be read: {error}") from None
        made = parse(text, str(path))
        taken = {rule.name for rule in (*rules(), *found)}
        for rule in made:
            if not MARK_NAME.fullmatch(rule.name):
                raise RuleError(f"{path}: {rule.name!r}: a rule's name is lower-case letters, digits and _")
            if rule.name in taken:
                raise RuleError(f"{path}: {rule.name}: there is a rule of this name already")
            taken.add(rule.name)
            _try(rule, str(path))
        found += made
    return tuple(found)


@cache
def _try(rule: Rule, where: str) -> None:
    if not rule.examples:
        raise RuleError(f"{where}: {rule.name}: give `examples`, one or more; they prove that the rule works")
    try:
        scanner = Scanner((rule,))
    except ScannerError as error:
        raise RuleError(f"{where}: {rule.name}: {error}") from None
    # The first example was the scanner's own canary.
    for template, wanted in [*((e, True) for e in rule.examples[1:]), *((n, False) for n in rule.near)]:
        if bool(scanner.scan([expand(template, rule.name).encode()])) is not wanted:
            what = "example is not found" if wanted else "near miss is found"
            raise RuleError(f"{where}: {rule.name}: {what}: {template}")


def check_allow(allow: Sequence[Allow]) -> None:
    """Raises `RuleError` for an entry without a reason, with none or both of its ways, for a pattern that is no RE2 and
    for one that lets anything stay."""
    for entry in allow:
        told = f"redaction.allow {entry.pattern or entry.fingerprint!r}"
        if not entry.reason.strip():
            raise RuleError(f"{told}: give the reason why this value may stay")
        if bool(entry.pattern) == bool(entry.fingerprint):
            raise RuleError(f"{told}: give either a pattern or a fingerprint")
        try:
            pattern = re2.compile(entry.pattern)
        except re2.error as error:
            raise RuleError(f"{told}: not a pattern that RE2 takes: {_text(error)}") from None
        if entry.pattern and all(pattern.fullmatch(expand(probe)) for probe in PROBES):
            raise RuleError(f"{told}: lets every value stay; name the values that may, or set redaction.pii to none")


def _text(error: re2.error) -> str:
    text = error.args[0] if error.args else ""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


class Allowed:
    """Whether a value may stay."""

    def __init__(self, policy: Policy) -> None:
        check_allow(policy.allow)
        self._patterns = [re2.compile(entry.pattern) for entry in policy.allow if entry.pattern]
        self._prints = {entry.fingerprint for entry in policy.allow if entry.fingerprint}
        self._key = policy.key
        if self._prints and not policy.key:
            raise RuleError("redaction.allow names fingerprints, but this home has no key: they say nothing here")

    def __bool__(self) -> bool:
        return bool(self._patterns or self._prints)

    def __contains__(self, value: str) -> bool:
        if any(pattern.fullmatch(value) for pattern in self._patterns):
            return True
        return bool(self._prints) and fingerprint(self._key, value) in self._prints
