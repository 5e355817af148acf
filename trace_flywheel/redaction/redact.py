"""What a finding becomes: a typed, numbered placeholder, or no rollout at all.

Invariants: redaction works inside parsed values and never changes a key, a number, a boolean or a null; placeholders
are numbered by first appearance inside the rollout and one value has one placeholder; redacting twice changes nothing;
what still matches after redaction is dropped, and so is a rollout with a secret in a key or a name, and one that a rule
fails on. A drop names rules, not values.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from time import monotonic
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
import orjson

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.redaction.assignment import sensitive, whole_value_is_secret
from trace_flywheel.redaction.depth import LIMIT, DeepDataError, deep_field, deeper_than
from trace_flywheel.redaction.fields import Taking, spelled, values_of, visit
from trace_flywheel.redaction.identities import Named, identities_of, masked_name, names_of, with_names
from trace_flywheel.redaction.joints import Joined
from trace_flywheel.redaction.jsontext import Leaf, Node, node_of
from trace_flywheel.redaction.marks import PLACEHOLDER as PLACEHOLDER  # the room's public names
from trace_flywheel.redaction.marks import Marks
from trace_flywheel.redaction.policy import Allowed, Policy, Sighting, fingerprint, policy_named
from trace_flywheel.redaction.scanner import Finding, RuleTimeoutError, Scanner, resolve
from trace_flywheel.redaction.second_gate import found_by_kingfisher
from trace_flywheel.redaction.spread import forms, places, strong
from trace_flywheel.redaction.strings import strings_of, with_strings
from trace_flywheel.redaction.tokens import without_tokens

Record = TypeVar("Record")
DATA_URI = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,[A-Za-z0-9+/=_-]*")
"""An image or a file in a content part: what looks like a secret in it is chance."""
_SPELT = re.compile(rb"\\u(?!00[01])")
"""A letter spelt as an escape, which detectors would not see: only control characters are written so."""
BUDGET = 300.0
"""Seconds for one record, all rounds. Patterns are linear and the slowest text known takes a second a megabyte: only a
rule that has gone wrong comes near it, so that no verdict depends on a machine's speed."""
ROUNDS = 4
"""A replacement can bring two neighbours together into a new finding; each round looks again at what changed."""


class NumberFindingError(Exception):
    """A long integer is a finding: numbers never change, so the record cannot stay."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


class SecretLeftError(Exception):
    """Something still matches after redaction."""

    def __init__(self, rule: str, **where: str) -> None:
        super().__init__(rule)
        self.rule = rule
        self.where = where
        """`place="key"`, or the `field` of an identity."""


class Redactor:
    """Redacts rollouts and plain data. One per process and profile (`redactor`); threads may share it."""

    def __init__(self, scanner: Scanner, policy: Policy = Policy(), budget: float = BUDGET) -> None:  # noqa: B008
        self._scanner = scanner
        self._budget = budget
        self._allowed = Allowed(policy)
        self._key = policy.key
        self._second_gate = policy.second_gate
        self._by_name = {rule.name: (rank, rule) for rank, rule in enumerate(scanner.rules)}

    def redact(self, rollout: Rollout) -> Rollout | Drop:
        """The rollout without secrets and personal data, `redactions` counted by rule; or the drop that replaces it.

        A clean rollout comes back with its own messages. Drops: `redact/secret_left`, `redact/number_finding`,
        `redact/rule_failed`, each with the rule's name (or the error's type) as evidence.
        """
        return self.redact_told(rollout)[0]

    def redact_told(self, rollout: Rollout) -> tuple[Rollout | Drop, tuple[Sighting, ...]]:
        """`redact`, and where what was replaced."""
        try:
            return self._redacted(rollout)
        except NumberFindingError as found:
            return self._drop(rollout, "number_finding", {"rule": found.rule}), ()
        except SecretLeftError as left:
            return self._drop(rollout, "secret_left", {"rule": left.rule, **left.where}), ()
        except RuleTimeoutError as slow:
            text = f"not done after {self._budget:g} s"
            return self._drop(rollout, "rule_failed", {"rule": slow.rule, "text": text}), ()
        except DeepDataError:
            text = f"nested deeper than {LIMIT} levels: too deep to be looked through; flatten or remove it"
            return self._drop(rollout, "rule_failed", {"field": deep_field(rollout), "limit": LIMIT, "text": text}), ()
        except Exception as error:  # fail closed: whatever goes wrong in a rule, the text goes no further
            return self._drop(rollout, "rule_failed", {"error": type(error).__name__}), ()

    def _redacted(self, rollout: Rollout) -> tuple[Rollout, tuple[Sighting, ...]]:
        names = identities_of(rollout)
        values = values_of(rollout)
        texts, tokens = len(values), spelled(rollout)
        values += [text for text, _ in tokens]
        touched, seen = self._clean(values, names)
        if not touched:
            clean = rollout if rollout.redactions is not None else msgspec.structs.replace(rollout, redactions={})
            return clean, ()
        taking = Taking(values, {i for i in touched if i < texts})
        visited = visit(rollout, taking)
        told = set(taking.owners.values())
        owners = taking.owners | {texts + i: owner for i, (_, owner) in enumerate(tokens)}
        redacted, removed = without_tokens(visited, told | {owners[i] for i in touched})
        # What tokens spell is told where no text of theirs was: it goes with them and is no second finding.
        seen = [(i, rule, value) for i, rule, value in seen if i < texts or owners[i] not in told]
        total = Counter(rollout.redactions or {}) + Counter(rule for _, rule, _ in seen)
        changed = msgspec.structs.replace(
            redacted,
            redactions=dict(sorted(total.items())),
            tokens_removed=rollout.tokens_removed or removed,
        )
        return changed, tuple(
            Sighting(owners[i].place(), rule, fingerprint(self._key, value) if self._key else "")
            for i, rule, value in seen
        )

    def redact_value(self, value: Any) -> tuple[Any, dict[str, int]]:
        """Plain JSON data or a text without findings, and the findings replaced, by rule.

        Raises `NumberFindingError`, `SecretLeftError` or `RuleTimeoutError` where `redact` would drop.
        """
        clean, seen = self.redact_value_told(value)
        return clean, dict(sorted(Counter(sighting.rule for sighting in seen).items()))

    def redact_value_told(self, value: Any, place: str = "") -> tuple[Any, tuple[Sighting, ...]]:
        """`redact_value`, and what was replaced, told as at `place`."""
        values = [value]
        _, seen = self._clean(values)
        return values[0], tuple(
            Sighting(place, rule, fingerprint(self._key, found) if self._key else "") for _, rule, found in seen
        )

    def scan(self, value: Any) -> dict[str, int]:
        """Findings in plain JSON data or a text as it stands, by rule: string values, keys and long integers.

        A rule at work when the budget is spent counts as one that found something."""
        counts: Counter[str] = Counter()
        try:
            _, found = self._look([value], [0], monotonic() + self._budget)
        except RuleTimeoutError as slow:
            return {slow.rule: 1}
        for findings in found.values():
            counts.update(finding.rule.name for finding in findings)
        if self._second_gate == "kingfisher":
            text = "\n".join(f"{leaf.key}: {leaf.text}" if leaf.key else leaf.text for leaf in _node(value).leaves())
            counts.update(rule for rule, secret in found_by_kingfisher(text) if secret not in self._allowed)
        return dict(sorted(counts.items()))

    def scan_line(self, line: bytes) -> dict[str, int]:
        """`scan` of a row that stands as a line of JSON, an object as orjson writes it: parsed only where a detector
        sees something."""
        if self._second_gate != "none" or _SPELT.search(line) or line.count(b"{") + line.count(b"[") > LIMIT:
            return self.scan(orjson.loads(line))
        deadline = monotonic() + self._budget
        try:
            if not self._scanner.look([line], deadline=deadline).suspects():
                return {}
            found = self._found_in([node_of(line.decode())], deadline)
        except RuleTimeoutError as slow:
            return {slow.rule: 1}
        counts = Counter(finding.rule.name for findings in found.values() for finding in findings)
        return dict(sorted(counts.items()))

    def masked(self, record: Named) -> Named:
        """A rollout or drop with secrets masked in the names it goes by; the same object where there are none."""
        names = {text for text, _ in names_of(record)}
        masks = {text: _masked(text, findings) for text, findings in self._in_names(sorted(names))}
        return with_names(record, masks) if masks else record

    def masked_record(self, record: Record) -> Record:
        """A record for other programs with secrets masked in its strings; the same object where there are none."""
        names = sorted(set(strings_of(record)))
        masks = {text: _masked(text, findings) for text, findings in self._in_names(names)}
        masked: Record = with_strings(record, masks) if masks else record
        return masked

    def safe(self, drop: Drop) -> Drop:
        """A drop that may be stored, published and logged: names masked, evidence redacted."""
        drop = self.masked(drop)
        try:
            evidence, found = self.redact_value(drop.evidence)
        except (NumberFindingError, SecretLeftError, RuleTimeoutError) as left:
            evidence, found = {"rule": left.rule, "text": "what decided held a secret"}, {left.rule: 1}
        except DeepDataError:
            evidence, found = {"text": f"what decided is nested deeper than {LIMIT} levels"}, {"depth": 1}
        return msgspec.structs.replace(drop, evidence=evidence) if found else drop

    def mask(self, text: str) -> str:
        """A name or a line for people without its secrets."""
        return next((_masked(text, findings) for _, findings in self._in_names([text])), text)

    def _in_names(self, names: Sequence[str]) -> Iterator[tuple[str, list[Finding]]]:
        """The names that hold secrets, and those secrets."""
        look = self._scanner.look([_bytes(name) for name in names])
        for n in look.suspects():
            findings = _secrets(self._not_allowed(names[n], look.findings(n)))
            if findings:
                yield names[n], findings

    def _drop(self, rollout: Rollout, reason: str, evidence: dict[str, Any]) -> Drop:
        rollout = self.masked(rollout)
        return Drop(
            Stage.REDACT,
            reason,
            evidence,
            run_id=rollout.run_id,
            trace_id=rollout.trace_id,
            task_id=rollout.task_id,
            agent=rollout.agent,
            model=rollout.model,
            job=rollout.job,
            path=rollout.source.path,
        )

    def _clean(
        self, values: list[Any], names: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[set[int], list[tuple[int, str, str]]]:
        """Replaces findings in the values, in place, until none is left: the places touched, and each replacement as
        (place, rule, value). `names` (text to field) are not replaced: they hold no secret and no value of elsewhere.

        Every round looks only at what the round before changed, all else having been seen; the last one is the second
        scan that fails closed.
        """
        deadline = monotonic() + self._budget
        touched: set[int] = set()
        seen: list[tuple[int, str, str]] = []
        known: dict[str, tuple[str, str]] = {}
        marks: Marks | None = None
        todo: Sequence[int] = range(len(values))
        for n in range(ROUNDS):
            nodes, found = self._look(values, todo, deadline, names if n == 0 else MappingProxyType({}))
            if not found:
                return touched, seen
            for leaf, findings in found.items():
                if leaf.is_key:
                    raise SecretLeftError(findings[0].rule.name, place="key")
            if numbers := [findings for leaf, findings in found.items() if leaf.number]:
                raise NumberFindingError(numbers[0][0].rule.name)
            marks = marks or Marks(values)
            fresh = _known(found)
            known |= {form: of for form, of in fresh.items() if form not in known}
            if fresh:
                for i in _holding(values, fresh):
                    _refuse(nodes.setdefault(i, _node(values[i])).key_texts(), fresh, place="key")
                for name, field in names.items():
                    _refuse([name], fresh, field=field)
            todo = []
            for i in sorted(nodes):
                told: list[tuple[str, str]] = []
                text = nodes[i].render(lambda leaf: _text_of(leaf, found.get(leaf, []), known, marks, told))  # noqa: B023
                seen += [(i, rule, value) for rule, value in told]
                if text != nodes[i].text:
                    values[i] = text if isinstance(values[i], str) else json.loads(text)
                    todo.append(i)
            touched.update(todo)
        _, found = self._look(values, todo, deadline)
        if found:
            raise SecretLeftError(next(iter(found.values()))[0].rule.name)
        return touched, seen

    def _look(
        self,
        values: Sequence[Any],
        places: Sequence[int],
        deadline: float,
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[dict[int, Node], dict[Leaf, list[Finding]]]:
        """Findings of the values at `places`: those values taken apart, and findings by leaf.

        A plain text needs the one detector pass; JSON is taken apart and its values are looked at by themselves. Names
        (text to field) are seen by the same pass: a secret in one raises `SecretLeftError`.
        """
        texts = [*(values if len(places) == len(values) else [values[i] for i in places]), *names]
        try:
            look = self._scanner.look_at_texts(texts, deadline)
        except TypeError:
            texts = [text if isinstance(text, str) else _bytes(text).decode() for text in texts]
            look = self._scanner.look_at_texts(texts, deadline)
        suspects = look.suspects()
        for n in suspects[bisect_left(suspects, len(places)) :]:
            if findings := _secrets(self._not_allowed(texts[n], look.findings(n))):
                raise SecretLeftError(findings[0].rule.name, field=names[texts[n]])
        nodes: dict[int, Node] = {}
        found: dict[Leaf, list[Finding]] = {}
        parsed: list[Node] = []
        for n in suspects[: bisect_left(suspects, len(places))]:
            node = _node(values[places[n]])
            if node.leaf is None:
                nodes[places[n]] = node
                parsed.append(node)
            elif findings := self._not_allowed(node.leaf.text, look.findings(n)):
                nodes[places[n]] = node
                found[node.leaf] = findings
        if parsed:
            found |= self._found_in(parsed, deadline)
        return nodes, found

    def _found_in(self, nodes: Iterable[Node], deadline: float) -> "dict[Leaf, list[Finding]]":
        """Findings by leaf, in document order; the leaf's key is part of what rules see."""
        nodes = list(nodes)
        leaves = [leaf for node in nodes for leaf in node.leaves()]
        leaves += [Leaf(key, is_key=True) for key in sorted({key for node in nodes for key in node.key_texts()})]
        prefixes = [_bytes(f"{leaf.key}: ") if leaf.key else b"" for leaf in leaves]
        texts = [prefix + _bytes(leaf.text) for prefix, leaf in zip(prefixes, leaves, strict=True)]
        scanned = self._scanner.scan(texts, deadline)
        found: dict[Leaf, list[Finding]] = {}
        rank, rule = self._by_name["secret"]
        for i, leaf in enumerate(leaves):
            skip = len(prefixes[i])
            findings = [
                f._replace(start=max(f.start - skip, 0), end=f.end - skip) for f in scanned.get(i, []) if f.end > skip
            ]
            if leaf.key and not leaf.number and sensitive(leaf.key) and whole_value_is_secret(leaf.text):
                findings = resolve([*findings, Finding(0, len(texts[i]) - skip, rank, rule)])
            findings = self._not_allowed(leaf.text, _secrets(findings) if leaf.is_key else findings)
            if findings and not DATA_URI.fullmatch(leaf.text):
                found[leaf] = findings
        return found

    def _not_allowed(self, text: str, findings: list[Finding]) -> list[Finding]:
        if not findings or not self._allowed:
            return findings
        data = _bytes(text)
        return [f for f in findings if _value(data, f) not in self._allowed]


def _bytes(value: Any) -> bytes:
    """What the detectors look at."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    try:
        data = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # too deep, or an integer of more than 64 bits
        if deeper_than(value, LIMIT):
            raise DeepDataError from None
        return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace")
    if data.count(b"{") + data.count(b"[") > LIMIT and deeper_than(value, LIMIT):
        raise DeepDataError
    return data


def _node(value: Any) -> Node:
    return node_of(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _known(found: dict[Leaf, list[Finding]]) -> dict[str, tuple[str, str]]:
    """Every form of the strong values found, with the value and its rule. Personal data is known by its own form."""
    known: dict[str, tuple[str, str]] = {}
    for leaf, findings in found.items():
        data = _bytes(leaf.text)
        for finding in findings:
            value = _value(data, finding)
            if finding.rule.family != "personal" and strong(value):
                for form in forms(value):
                    known.setdefault(form, (value, finding.rule.name))
    return known


def _holding(values: Sequence[Any], known: dict[str, tuple[str, str]]) -> list[int]:
    needles = [_bytes(form) for form in known]
    return [i for i, value in enumerate(values) if any(True for _ in places(_bytes(value), needles))]


def _text_of(
    leaf: Leaf,
    findings: list[Finding],
    known: dict[str, tuple[str, str]],
    marks: Marks,
    told: list[tuple[str, str]],
) -> str:
    """A leaf's text with placeholders for its findings and for every known value in it; `told` gets (rule, value)."""
    data = _bytes(leaf.text)
    spans = [(f.start, f.end, _value(data, f), f.rule.name) for f in findings]
    starts = [start for start, *_ in spans]
    of = {_bytes(form): value_and_rule for form, value_and_rule in known.items()}
    for at, needle in places(data, list(of)) if of else ():
        end, i = at + len(needle), bisect_right(starts, at)
        if (not i or spans[i - 1][1] <= at) and (i == len(spans) or end <= starts[i]):
            spans.insert(i, (at, end, *of[needle]))
            starts.insert(i, at)
    if not spans:
        return leaf.text
    out, last = bytearray(), 0
    for start, end, value, rule in spans:
        out += data[last:start] + _bytes(marks.of(value, rule))
        told.append((rule, value))
        last = end
    return (out + data[last:]).decode("utf-8", "replace")


def _value(data: bytes, finding: Finding) -> str:
    """The value found, joints inside it undone."""
    return Joined(data[finding.start : finding.end]).text.decode("utf-8", "replace")


def _secrets(findings: list[Finding]) -> list[Finding]:
    """Personal data is no finding in names and keys."""
    return [finding for finding in findings if finding.rule.family != "personal"]


def _masked(text: str, findings: list[Finding]) -> str:
    """The name with placeholders, and a hash of it that leaves out what is no token of a known format."""
    data, marks = _bytes(text), Marks([text])
    shown, hashed, last = bytearray(), bytearray(), 0
    for finding in findings:
        mark = _bytes(marks.of(_value(data, finding), finding.rule.name))
        shown += data[last : finding.start] + mark
        hashed += data[last : finding.start] + (data[finding.start : finding.end] if finding.rule.body else mark)
        last = finding.end
    return masked_name((shown + data[last:]).decode("utf-8", "replace"), bytes(hashed + data[last:]))


def _refuse(texts: Iterable[str], known: dict[str, tuple[str, str]], **where: str) -> None:
    """Raise `SecretLeftError` where a known value stands in a text that never changes."""
    for text in texts:
        if rule := next((rule for form, (_, rule) in known.items() if form in text), None):
            raise SecretLeftError(rule, **where)


def redactor(policy: Policy | str) -> Redactor:
    """The process's redactor of a policy or a profile (`none`, `standard`, `all`), proven on its canaries."""
    return _redactor(policy_named(policy))


@cache
def _redactor(policy: Policy) -> Redactor:
    return Redactor(Scanner(policy.in_force()), policy)
