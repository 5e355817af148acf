"""Findings in values: plain text by one detector pass, JSON taken apart and looked at value by value."""

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from trace_flywheel.redaction.assignment import sensitive, whole_value_is_secret
from trace_flywheel.redaction.budget import Budget
from trace_flywheel.redaction.depth import LIMIT, DeepDataError, deeper_than
from trace_flywheel.redaction.jsontext import Leaf, Node, leaves_of, node_of
from trace_flywheel.redaction.policy import Allowed
from trace_flywheel.redaction.replacing import value_of
from trace_flywheel.redaction.scanner import Look, Scanner
from trace_flywheel.redaction.spans import Finding, resolve

DATA_URI = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,[A-Za-z0-9+/=_-]*")
"""An image or a file in a content part: what looks like a secret in it is chance."""
NO_NAMES: Mapping[str, str] = MappingProxyType({})


class SecretLeftError(Exception):
    """Something still matches after redaction, or stands where nothing is replaced."""

    def __init__(self, rule: str, **where: str) -> None:
        super().__init__(rule)
        self.rule = rule
        self.where = where
        """`place="key"`, or the `field` of an identity."""


class Seen:
    """What one look at values saw: those with findings or with JSON taken apart, by place, and findings by leaf."""

    def __init__(self, data: bytes, starts: Sequence[int], marked: bool) -> None:
        self.data = data
        """The values and names looked at, with a separator before, between and after."""
        self.starts = starts
        """Where each of them begins in the data, and where one after the last would."""
        self.marked = marked
        """Whether a placeholder stands anywhere."""
        self.nodes: dict[int, Node] = {}
        self.found: dict[Leaf, list[Finding]] = {}


class Sight(NamedTuple):
    """Values in which a detector matches somewhere: `texts` are those at `places`, then the names."""

    look: Look
    texts: Sequence[str]
    values: Sequence[Any]
    places: Sequence[int]
    names: Mapping[str, str]


class Looker:
    """Looks at values with a scanner, and passes over what is allowed to stay."""

    def __init__(self, scanner: Scanner, allowed: Allowed) -> None:
        self._scanner = scanner
        self._allowed = allowed
        self._secret = next(((rank, rule) for rank, rule in enumerate(scanner.rules) if rule.name == "secret"), None)

    def look(
        self, values: Sequence[Any], places: Sequence[int], budget: Budget, names: Mapping[str, str] = NO_NAMES
    ) -> Seen | None:
        """Findings of the values at `places`; None where no detector matches.

        A plain text needs the one detector pass; JSON is taken apart and its values are looked at by themselves. Names
        (text to field) are seen by the same pass: a secret in one raises `SecretLeftError`.
        """
        sight = self.sight(values, places, names)
        if sight is None:
            return None
        with budget.enforced():
            return self.judged(sight, budget)

    def sight(self, values: Sequence[Any], places: Sequence[int], names: Mapping[str, str] = NO_NAMES) -> Sight | None:
        """The first half of `look`, the detectors' pass, which nothing holds up."""
        texts = [*(values if len(places) == len(values) else [values[i] for i in places]), *names]
        try:
            look = self._scanner.look_at_texts(texts)
        except TypeError:
            texts = [text if isinstance(text, str) else bytes_of(text).decode() for text in texts]
            look = self._scanner.look_at_texts(texts)
        return None if look.calm else Sight(look, texts, values, places, names)

    def judged(self, sight: Sight, budget: Budget) -> Seen:
        """The second half: what of it are findings. Runs inside `budget.enforced`."""
        look, texts, values, places, names = sight
        seen, suspects = Seen(look.data, look.starts, look.marked), look.suspects()
        first_name = bisect_left(suspects, len(places))
        for n in suspects[first_name:]:
            if findings := secrets_of(self._not_allowed(texts[n], look.findings(n, budget))):
                raise SecretLeftError(findings[0].rule.name, field=names[texts[n]])
        parsed: list[Node] = []
        for n in suspects[:first_name]:
            node = node_at(values[places[n]])
            if node.leaf is None:
                seen.nodes[places[n]] = node
                parsed.append(node)
            elif findings := self._not_allowed(node.leaf.text, look.findings(n, budget)):
                seen.nodes[places[n]] = node
                seen.found[node.leaf] = findings
        if parsed:
            leaves = [leaf for node in parsed for leaf in node.leaves()]
            seen.found |= self._found_in(leaves, {key for node in parsed for key in node.key_texts()}, budget)
        return seen

    def look_at_line(self, line: bytes, budget: Budget) -> dict[Leaf, list[Finding]] | None:
        """Findings of a line of JSON, which is taken apart only where a detector sees something; None where letters are
        spelt as escapes, so that the detectors may not see everything."""
        look = self._scanner.look([line])
        if look.spelt:
            return None
        if look.calm:
            return {}
        with budget.enforced():
            return self._found_in(*leaves_of(line), budget)

    def in_names(self, names: Sequence[str]) -> Iterator[tuple[str, list[Finding]]]:
        """The names that hold secrets, and those secrets."""
        look = self._scanner.look([bytes_of(name) for name in names])
        for n in look.suspects():
            if findings := secrets_of(self._not_allowed(names[n], look.findings(n))):
                yield names[n], findings

    def _found_in(self, leaves: list[Leaf], keys: set[str], budget: Budget) -> dict[Leaf, list[Finding]]:
        """Findings by leaf, in document order, then those in keys; a leaf's key is part of what rules see."""
        leaves = [*leaves, *(Leaf(key, is_key=True) for key in sorted(keys))]
        texts = [bytes_of(f"{leaf.key}: {leaf.text}" if leaf.key else leaf.text) for leaf in leaves]
        scanned = self._scanner.scan(texts, budget)
        found: dict[Leaf, list[Finding]] = {}
        for i, leaf in enumerate(leaves):
            named = leaf.key and not leaf.number and self._secret and sensitive(leaf.key)
            if i not in scanned and not named:
                continue
            skip = len(bytes_of(f"{leaf.key}: ")) if leaf.key else 0
            findings = [
                f._replace(start=max(f.start - skip, 0), end=f.end - skip) for f in scanned.get(i, []) if f.end > skip
            ]
            if named and self._secret:
                budget.rule = self._secret[1].name
                if whole_value_is_secret(leaf.data().decode()):
                    findings = resolve([*findings, Finding(0, len(texts[i]) - skip, *self._secret)])
            findings = self._not_allowed(leaf.text, secrets_of(findings) if leaf.is_key else findings)
            if findings and not DATA_URI.fullmatch(leaf.text):
                found[leaf] = findings
        return found

    def _not_allowed(self, text: str, findings: list[Finding]) -> list[Finding]:
        if not findings or not self._allowed:
            return findings
        data = bytes_of(text)
        return [f for f in findings if value_of(data, f) not in self._allowed]


def bytes_of(value: Any) -> bytes:
    """What the detectors look at."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    try:
        data = orjson.dumps(value)  # with options it takes twice as long, of which JSON data needs none
    except TypeError:
        data = _dumped(value)
    if len(data) > LIMIT and data.count(b"{") + data.count(b"[") > LIMIT and deeper_than(value, LIMIT):
        raise DeepDataError
    return data


def _dumped(value: Any) -> bytes:
    """Data that is no plain JSON, too deep, or holds an integer of more than 64 bits."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        if deeper_than(value, LIMIT):
            raise DeepDataError from None
        return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace")


def node_at(value: Any) -> Node:
    """A value taken apart."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Node(str(value), Leaf(str(value), number=True))
    return node_of(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def secrets_of(findings: Iterable[Finding]) -> list[Finding]:
    """Personal data is no finding in names and keys."""
    return [finding for finding in findings if finding.rule.family != "personal"]
