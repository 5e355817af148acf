"""What a finding becomes: a typed, numbered placeholder, or no rollout at all.

Invariants: redaction works inside parsed values and never changes a key, a number, a boolean or a null; placeholders
are numbered by first appearance inside the rollout and one value has one placeholder; redacting twice changes nothing;
what still matches after redaction is dropped, and so is a rollout that a rule fails on. A drop names rules, not values.
"""

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec
import orjson

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.redaction.assignment import sensitive, whole_value_is_secret
from trace_flywheel.redaction.fields import Owner, values_of, visit
from trace_flywheel.redaction.jsontext import Leaf, Node, node_of
from trace_flywheel.redaction.marks import PLACEHOLDER as PLACEHOLDER  # the room's public names
from trace_flywheel.redaction.marks import Marks
from trace_flywheel.redaction.rules import rules_of
from trace_flywheel.redaction.rules import ruleset_digest as ruleset_digest
from trace_flywheel.redaction.scanner import FOLD, Finding, Scanner, resolve
from trace_flywheel.redaction.spread import forms, places, strong
from trace_flywheel.redaction.tokens import without_tokens

DATA_URI = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,[A-Za-z0-9+/=_-]*")
"""An image or a file in a content part: what looks like a secret in it is chance."""
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
        values = values_of(rollout)
        touched, counts = self._clean(values)
        if not touched:
            return rollout if rollout.redactions is not None else msgspec.structs.replace(rollout, redactions={})
        owners: list[Owner] = []

        def take(value: Any, owner: Owner) -> Any:
            owners.append(owner)
            return values[len(owners) - 1] if len(owners) - 1 in touched else value

        redacted, removed = without_tokens(visit(rollout, take), {owners[i] for i in touched})
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
        values = [value]
        _, counts = self._clean(values)
        return values[0], dict(sorted(counts.items()))

    def scan(self, value: Any) -> dict[str, int]:
        """Findings in plain JSON data or a text as it stands, by rule: string values and long integers."""
        counts: Counter[str] = Counter()
        _, found = self._look([value], [0])
        for findings in found.values():
            counts.update(finding.rule.name for finding in findings)
        return dict(sorted(counts.items()))

    def _clean(self, values: list[Any]) -> tuple[set[int], Counter[str]]:
        """Replaces findings in the values, in place, until none is left: the places touched, replacements by rule.

        Every round looks only at what the round before changed, all else having been seen; the last one is the second
        scan that fails closed.
        """
        touched: set[int] = set()
        counts: Counter[str] = Counter()
        known: dict[str, tuple[str, str]] = {}
        marks: Marks | None = None
        todo: Sequence[int] = range(len(values))
        for _ in range(ROUNDS):
            nodes, found = self._look(values, todo)
            if not found:
                return touched, counts
            if numbers := [findings for leaf, findings in found.items() if leaf.number]:
                raise NumberFindingError(numbers[0][0].rule.name)
            marks = marks or Marks(values)
            fresh = _known(found)
            known |= {form: of for form, of in fresh.items() if form not in known}
            for i in _holding(values, fresh) if fresh else ():
                nodes.setdefault(i, _node(values[i]))
            todo = []
            for i in sorted(nodes):
                text = nodes[i].render(lambda leaf: _text_of(leaf, found.get(leaf, []), known, marks, counts))  # noqa: B023
                if text != nodes[i].text:
                    values[i] = text if isinstance(values[i], str) else json.loads(text)
                    todo.append(i)
            touched.update(todo)
        _, found = self._look(values, todo)
        if found:
            raise SecretLeftError(next(iter(found.values()))[0].rule.name)
        return touched, counts

    def _look(self, values: Sequence[Any], places: Sequence[int]) -> tuple[dict[int, Node], dict[Leaf, list[Finding]]]:
        """Findings of the values at `places`: those values taken apart, and findings by leaf.

        A plain text needs the one detector pass; JSON is taken apart and its values are looked at by themselves.
        """
        look = self._scanner.look(
            [value.encode("utf-8", "replace") if isinstance(value := values[i], str) else _bytes(value) for i in places]
        )
        nodes: dict[int, Node] = {}
        found: dict[Leaf, list[Finding]] = {}
        parsed: list[Node] = []
        for n in look.suspects():
            node = _node(values[places[n]])
            if node.leaf is None:
                nodes[places[n]] = node
                parsed.append(node)
            elif findings := look.findings(n):
                nodes[places[n]] = node
                found[node.leaf] = findings
        if parsed:
            found |= self._found_in(parsed)
        return nodes, found

    def _found_in(self, nodes: Iterable[Node]) -> "dict[Leaf, list[Finding]]":
        """Findings by leaf, in document order; the leaf's key is part of what rules see."""
        leaves = [leaf for node in nodes for leaf in node.leaves()]
        prefixes = [_bytes(f"{leaf.key}: ") if leaf.key else b"" for leaf in leaves]
        texts = [prefix + _bytes(leaf.text) for prefix, leaf in zip(prefixes, leaves, strict=True)]
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
            if findings and not DATA_URI.fullmatch(leaf.text):
                found[leaf] = findings
        return found


def _bytes(value: Any) -> bytes:
    """What the detectors look at."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)


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
    counts: Counter[str],
) -> str:
    """A leaf's text with placeholders for its findings and for every known value in it."""
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
        counts[rule] += 1
        last = end
    return (out + data[last:]).decode("utf-8", "replace")


def _value(data: bytes, finding: Finding) -> str:
    """The value found, line continuations inside it taken out."""
    return re.sub(FOLD, b"", data[finding.start : finding.end]).decode("utf-8", "replace")


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
