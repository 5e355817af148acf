"""What a finding becomes: a typed, numbered placeholder, or no rollout at all.

Invariants: redaction works inside parsed values and never changes a key, a number, a boolean or a null; placeholders
are numbered by first appearance inside the rollout and one value has one placeholder; redacting twice changes nothing;
what still matches after redaction is dropped, and so is a rollout that a rule fails on. A drop names rules, not values.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec
import orjson

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.redaction.assignment import sensitive, whole_value_is_secret
from trace_flywheel.redaction.fields import Owner, visit
from trace_flywheel.redaction.jsontext import Leaf, Node, node_of
from trace_flywheel.redaction.rules import rules_of
from trace_flywheel.redaction.rules import ruleset_digest as ruleset_digest  # the room's public name
from trace_flywheel.redaction.scanner import Finding, Scanner, resolve
from trace_flywheel.redaction.spread import forms, strong
from trace_flywheel.redaction.tokens import without_tokens

PLACEHOLDER = re.compile(r"\[REDACTED:([a-z0-9_]+):(\d+)\]")
ROUNDS = 4
"""A replacement can bring two neighbours together into a new finding; each round looks again at what changed."""


class NumberFindingError(Exception):
    """A long integer is a finding: numbers never change, so the record cannot stay."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


class SecretLeftError(Exception):
    """Something still matches after redaction."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


class Field(msgspec.Struct):
    """One field of a record: `value` as it stands, `leaf` the bytes detectors look at."""

    kind: str
    value: Any
    owner: Owner
    leaf: bytes
    touched: bool = False


def field_of(kind: str, value: Any, owner: Owner) -> Field:
    """The field of a value; plain data is looked at as JSON."""
    if kind == "data":
        return Field(kind, value, owner, orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS))
    return Field(kind, value, owner, value.encode("utf-8", "replace"))


class Marks:
    """Placeholders of one record: by value, numbered per rule by first appearance after those already there."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._last: Counter[str] = Counter()
        self._of: dict[str, str] = {}
        for text in texts:
            if b"[REDACTED:" in text:
                for rule, number in PLACEHOLDER.findall(text.decode("utf-8", "replace")):
                    self._last[rule] = max(self._last[rule], int(number))

    def of(self, value: str, rule: str) -> str:
        if value not in self._of:
            self._last[rule] += 1
            self._of[value] = f"[REDACTED:{rule}:{self._last[rule]}]"
        return self._of[value]


class Redactor:
    """Redacts rollouts and plain data. One per process and profile (`redactor`); threads may share it."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._by_name = {rule.name: (rank, rule) for rank, rule in enumerate(scanner.rules)}

    def redact(self, rollout: Rollout) -> Rollout | Drop:
        """The rollout without secrets and personal data, `redactions` counted by rule; or the drop that replaces it.

        A clean rollout comes back with its own messages. Drops: `redact/secret_left`, `redact/number_finding`,
        `redact/rule_failed`, each with the rule's name (or the error's type) as evidence.
        """
        try:
            return self._redacted(rollout)
        except NumberFindingError as found:
            return _drop(rollout, "number_finding", {"rule": found.rule})
        except SecretLeftError as left:
            return _drop(rollout, "secret_left", {"rule": left.rule})
        except Exception as error:  # fail closed: whatever goes wrong in a rule, the text goes no further
            return _drop(rollout, "rule_failed", {"error": type(error).__name__})

    def _redacted(self, rollout: Rollout) -> Rollout:
        fields: list[Field] = []

        def collect(kind: str, value: Any, owner: Owner) -> Any:
            fields.append(field_of(kind, value, owner))
            return value

        visit(rollout, collect)
        counts = self._clean(fields)
        if not counts:
            return rollout if rollout.redactions is not None else msgspec.structs.replace(rollout, redactions={})
        cleaned = iter(fields)
        redacted = visit(rollout, lambda _kind, _value, _owner: next(cleaned).value)
        redacted, removed = without_tokens(redacted, {field.owner for field in fields if field.touched})
        total = Counter(rollout.redactions or {}) + counts
        return msgspec.structs.replace(
            redacted,
            redactions=dict(sorted(total.items())),
            tokens_removed=rollout.tokens_removed or removed,
        )

    def redact_value(self, value: Any) -> tuple[Any, dict[str, int]]:
        """Plain JSON data or a text without findings, and the findings replaced, by rule.

        Raises `NumberFindingError` or `SecretLeftError` where `redact` would drop.
        """
        field = field_of("text" if isinstance(value, str) else "data", value, Owner("rollout"))
        counts = self._clean([field])
        return field.value, dict(sorted(counts.items()))

    def scan(self, value: Any) -> dict[str, int]:
        """Findings in plain JSON data or a text as it stands, by rule: string values and long integers."""
        field = field_of("text" if isinstance(value, str) else "data", value, Owner("rollout"))
        look = self._scanner.look([field.leaf])
        if not look.suspects():
            return {}
        counts: Counter[str] = Counter()
        node = _node(field)
        for found in self._found_in([node]).values():
            counts.update(finding.rule.name for finding in found)
        return dict(sorted(counts.items()))

    def _clean(self, fields: Sequence[Field]) -> Counter[str]:
        """Replaces findings in the fields, in place, until none is left. Counts replacements by rule."""
        counts: Counter[str] = Counter()
        marks: Marks | None = None
        known: dict[str, tuple[str, str]] = {}
        todo = list(fields)
        for _ in range(ROUNDS):
            look = self._scanner.look([field.leaf for field in todo])
            nodes = {i: _node(todo[i]) for i in look.suspects()}
            found = self._found_in(nodes.values())
            if not found:
                return counts
            for finding_leaf, findings in found.items():
                if finding_leaf.number:
                    raise NumberFindingError(findings[0].rule.name)
            marks = marks or Marks(field.leaf for field in fields)
            for leaf, findings in found.items():
                for finding in findings:
                    value = _value(leaf, finding)
                    if finding.rule.family != "personal" and strong(value):
                        known.update((form, (value, finding.rule.name)) for form in forms(value) if form not in known)
            if known:
                needles = [form.encode() for form in known]
                for i, field in enumerate(todo):
                    if i not in nodes and any(needle in field.leaf for needle in needles):
                        nodes[i] = _node(field)
            todo = self._replaced(todo, nodes, found, known, marks, counts)
        look_again = self._found_in([_node(field) for field in todo])
        if look_again:
            raise SecretLeftError(next(iter(look_again.values()))[0].rule.name)
        return counts

    def _replaced(
        self,
        todo: Sequence[Field],
        nodes: dict[int, Node],
        found: "dict[Leaf, list[Finding]]",
        known: dict[str, tuple[str, str]],
        marks: Marks,
        counts: Counter[str],
    ) -> list[Field]:
        """Writes placeholders into the fields of `nodes`; the fields that changed."""
        changed: list[Field] = []

        def change(leaf: Leaf) -> str:
            return self._text_of(leaf, found.get(leaf, []), known, marks, counts)

        for i in sorted(nodes):
            text = nodes[i].render(change)
            if text != nodes[i].text:
                field = todo[i]
                fresh = field_of(field.kind, orjson.loads(text) if field.kind == "data" else text, field.owner)
                field.value, field.leaf, field.touched = fresh.value, fresh.leaf, True
                changed.append(field)
        return changed

    def _text_of(
        self,
        leaf: Leaf,
        findings: list[Finding],
        known: dict[str, tuple[str, str]],
        marks: Marks,
        counts: Counter[str],
    ) -> str:
        """A leaf's text with placeholders for its findings and for every known value in it."""
        spans = [(f.start, f.end, _value(leaf, f), f.rule.name) for f in findings]
        data = leaf.text.encode("utf-8", "replace")
        for form, (value, rule) in known.items():
            needle, at = form.encode(), -1
            while (at := data.find(needle, at + 1)) >= 0:
                if not any(start < at + len(needle) and at < end for start, end, _, _ in spans):
                    spans.append((at, at + len(needle), value, rule))
        if not spans:
            return leaf.text
        out, last = bytearray(), 0
        for start, end, value, rule in sorted(spans):
            out += data[last:start] + marks.of(value, rule).encode()
            counts[rule] += 1
            last = end
        return (out + data[last:]).decode("utf-8", "replace")

    def _found_in(self, nodes: Iterable[Node]) -> "dict[Leaf, list[Finding]]":
        """Findings by leaf, in document order; the leaf's key is part of what rules see."""
        leaves = [leaf for node in nodes for leaf in node.leaves()]
        prefixes = [f"{leaf.key}: ".encode("utf-8", "replace") if leaf.key else b"" for leaf in leaves]
        texts = [p + leaf.text.encode("utf-8", "replace") for p, leaf in zip(prefixes, leaves, strict=True)]
        scanned = self._scanner.scan(texts)
        found: dict[Leaf, list[Finding]] = {}
        rank, rule = self._by_name["secret"]
        for i, leaf in enumerate(leaves):
            skip = len(prefixes[i])
            findings = [
                f._replace(start=max(f.start - skip, 0), end=f.end - skip) for f in scanned.get(i, []) if f.end > skip
            ]
            if leaf.key and not leaf.number and sensitive(leaf.key) and whole_value_is_secret(leaf.text):
                findings = resolve([*findings, Finding(0, len(texts[i]) - skip, rank, rule)])
            if findings and not leaf.text.startswith("data:"):
                found[leaf] = findings
        return found


def _node(field: Field) -> Node:
    if field.kind == "data":
        return node_of(json.dumps(field.value, ensure_ascii=False, default=str))
    return node_of(field.value)


def _value(leaf: Leaf, finding: Finding) -> str:
    """The value found, line continuations inside it taken out."""
    text = leaf.text.encode("utf-8", "replace")[finding.start : finding.end].decode("utf-8", "replace")
    return re.sub(r"\\(?:\r?\n|\\\\n)", "", text)


def _drop(rollout: Rollout, reason: str, evidence: dict[str, Any]) -> Drop:
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


@cache
def redactor(pii: str) -> Redactor:
    """The process's redactor of a profile (`none`, `standard`, `all`), proven on its canaries."""
    return Redactor(Scanner(rules_of(pii)))
