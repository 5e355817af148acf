"""Finds fast: one detector pass over a whole rollout, then RE2 in small windows, then validators.

Stage 1 scans the concatenated leaves once per database. Stage 2 confirms in a window around each detector match, never
across a leaf. Hyperscan and RE2 sets give the same verdicts; the second is the fallback where Hyperscan has no wheel.
A scanner is built once per process, and proves itself on canary strings before it is used.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import inf
from time import monotonic
from typing import Any, NamedTuple

import re2

from trace_flywheel.redaction.assignment import is_secret_value
from trace_flywheel.redaction.engines import Engine, HyperscanEngine, Re2Engine, best_engine
from trace_flywheel.redaction.joints import DETECTORS, Joined, has_joint
from trace_flywheel.redaction.rules import Rule, expand
from trace_flywheel.redaction.validators import VALIDATORS

SEPARATOR = b"\n"
"""Stands before, between and after the leaves: no value holds it at its ends, and patterns see a boundary."""
CONTEXT = 240
"""Bytes before a value in which a rule's context word may stand."""
VALUE_WINDOW = 320
"""Bytes in which an assignment is looked for and judged, so that a refused one costs little however long its value is;
an agreed one is taken to its end: the closing quote it was opened with, or the next delimiter."""
_ENDS = {b'"': re.compile(rb'[^"\n]*'), b"'": re.compile(rb"[^'\n]*"), b"": re.compile(rb"[^\s\"'`<>,;\\]*")}
MARK_OPENS = b"[REDACTED:"
"""Before a rule's name in a placeholder: what follows it is no assignment."""


class ScannerError(RuntimeError):
    """The scanner cannot be trusted: a canary was missed or a rule does not compile."""


class RuleTimeoutError(RuntimeError):
    """A rule was at work when the time for a record was over; what is not judged does not pass."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


class Finding(NamedTuple):
    """Bytes `start:end` of a leaf are a value of `rule`; `rank` is the rule's precedence, smaller first."""

    start: int
    end: int
    rank: int
    rule: Rule


class Look:
    """What the detectors saw in some leaves. `findings` confirms one leaf; others cost nothing."""

    def __init__(
        self,
        scanner: "Scanner",
        data: bytes,
        leaves: Sequence[bytes] | Sequence[str],
        joints: bool = True,
        deadline: float = inf,
    ) -> None:
        """`data` is the leaves with separators around them; where each begins is asked only when there is a hit."""
        self._scanner, self.data, self._deadline = scanner, data, deadline
        self._hits: dict[int, dict[int, list[int]]] = {}
        self._jointed: set[int] = set()
        hits = scanner.engine.hits(data)
        if not hits:
            return
        self._starts = _starts(leaves, len(data))
        last = len(leaves) - 1
        for expression, end in hits:
            touched = range(len(leaves)) if end < 0 else (min(max(bisect_right(self._starts, end - 1) - 1, 0), last),)
            for leaf in touched:
                for rule in scanner.rules_of[expression]:
                    if rule < len(scanner.rules):
                        self._hits.setdefault(leaf, {}).setdefault(rule, []).append(end)
                    elif joints:
                        self._jointed.add(leaf)

    def suspects(self) -> list[int]:
        """Leaves with any detector match, in order: a superset of those with findings."""
        return sorted(self._hits.keys() | self._jointed)

    def findings(self, leaf: int) -> list[Finding]:
        """Confirmed findings of a leaf, in order of place, not overlapping."""
        if leaf not in self._hits and leaf not in self._jointed:
            return []
        low, high = self._starts[leaf], self._starts[leaf + 1] - 1
        found: list[Finding] = []
        for rule, ends in self._hits.get(leaf, {}).items():
            for start, end in self._scanner.confirmed(rule, self.data, ends, low, high, self._deadline):
                found.append(Finding(start - low, end - low, rule, self._scanner.rules[rule]))
        if leaf in self._jointed:
            found += self._scanner.over_joints(self.data[low:high], self._deadline)
        return resolve(found)


class Scanner:
    """`scan` finds in leaves (UTF-8 texts). Safe to share between threads."""

    def __init__(self, rules: Sequence[Rule], engine: type[HyperscanEngine] | type[Re2Engine] | None = None) -> None:
        self.rules = tuple(rules)
        options = re2.Options()
        options.max_mem = 64 << 20
        try:
            self._confirm = [re2.compile(rule.pattern().encode(), options) for rule in self.rules]
            self._detect = [re2.compile(rule.expression().encode(), options) for rule in self.rules]
            self._context = [re2.compile(r.context.encode(), options) if r.context else None for r in self.rules]
            self._unless = [re2.compile(r.unless.encode(), options) if r.unless else None for r in self.rules]
            expressions = [
                *((rule.database, rule.expression()) for rule in self.rules),
                *(("literal", joint) for joint in DETECTORS),
            ]
            unique = list(dict.fromkeys(expressions))
            self.engine: Engine = (engine or best_engine())(unique)
        except Exception as error:  # both libraries raise their own types; every one means the same here
            raise ScannerError(f"a redaction rule does not compile: {error}") from error
        places = {expression: place for place, expression in enumerate(unique)}
        self.rules_of: list[list[int]] = [[] for _ in unique]
        """Rules by expression; an index past the last rule means a joint inside a value."""
        for rank, expression in enumerate(expressions):
            self.rules_of[places[expression]].append(rank)
        self._name_group = [p.groupindex.get(b"name", 0) for p in self._confirm]
        self._value_groups = [
            [i for i in range(1, p.groups + 1) if i != named]
            for p, named in zip(self._confirm, self._name_group, strict=True)
        ]
        self._checks = [[VALIDATORS[c] for c in rule.check] for rule in self.rules]
        self._prove()

    def look(self, leaves: Sequence[bytes], joints: bool = True, deadline: float = inf) -> "Look":
        """One detector pass over all leaves; the rest is done leaf by leaf, as asked. Findings that are asked for raise
        `RuleTimeoutError` when `time.monotonic` passes the deadline: it is compared after each judgement of a rule."""
        return Look(self, b"%b%b%b" % (SEPARATOR, SEPARATOR.join(leaves), SEPARATOR), leaves, joints, deadline)

    def look_at_texts(self, texts: Sequence[str], deadline: float = inf) -> "Look":
        """`look` at texts: they are joined and encoded once. Raises `TypeError` where one is no text."""
        return Look(self, "\n".join(("", *texts, "")).encode("utf-8", "replace"), texts, True, deadline)

    def scan(self, leaves: Sequence[bytes], deadline: float = inf) -> dict[int, list[Finding]]:
        """Findings by leaf, in order of place, not overlapping. Leaves without any are left out."""
        look = self.look(leaves, deadline=deadline)
        return {leaf: found for leaf in look.suspects() if (found := look.findings(leaf))}

    def confirmed(
        self, rule: int, data: bytes, ends: list[int], low: int, high: int, deadline: float = inf
    ) -> Iterator[tuple[int, int]]:
        """Spans that pattern, validators and context agree on, by increasing place."""
        pattern, named, at = self._confirm[rule], self._name_group[rule], 0
        refused: dict[bytes, int] = {}
        for begin, stop in _regions(ends, self.rules[rule], low - 1, high + 1):
            at = max(at, begin)
            while at < stop:
                limit = min(stop, at + VALUE_WINDOW) if named else stop
                window = data[max(at - len(MARK_OPENS), 0) : limit + 1] if named else b""
                if (step := refused.get(window)) is not None:
                    at += step
                    continue
                match = pattern.search(data, at, limit)
                if match is None:
                    if limit == stop:
                        break
                    at = limit - VALUE_WINDOW // 2
                    continue
                if match.end() == limit and named and match.start() > at:
                    at = match.start()
                    continue
                if match.end() == stop and stop <= high and not named:
                    stop = min(high + 1, stop + 4 * (stop - begin))
                    continue
                start, end = self._value_span(rule, match)
                start, end = max(start, low), min(end, high)
                agreed = start < end and self._agrees(rule, match, data, start, end, low)
                if monotonic() > deadline:
                    raise RuleTimeoutError(self.rules[rule].name)
                if agreed:
                    if named and match.end() == limit:
                        end = _end_of(data, start, end, high)
                    yield start, end
                    at = max(end, match.start() + 1)
                else:
                    after = start if start > match.start() else max(match.end(), match.start() + 1)
                    if named:  # the same text is refused again: a word repeated without end costs one look
                        refused[window] = after - at
                    at = after

    def _value_span(self, rule: int, match: Any) -> tuple[int, int]:
        for group in self._value_groups[rule]:
            if match.start(group) >= 0:
                return match.start(group), match.end(group)
        return match.start(), match.end()

    def _agrees(self, rule: int, match: Any, data: bytes, start: int, end: int, low: int) -> bool:
        """Whether detector, assignment, context and validators all hold of this very match.

        The detector is asked again about the match alone, so that a verdict depends on no window and no engine.
        """
        value = data[start:end].decode("utf-8", "replace")
        begin = match.start() if self._context[rule] is None else max(low - 1, match.start() - CONTEXT)
        if self._detect[rule].search(data, begin, match.end() + 1) is None:
            return False
        if named := self._name_group[rule]:
            if data.endswith(MARK_OPENS, 0, match.start()):
                return False
            gap = data[match.end(named) : start].decode("utf-8", "replace")
            after = chr(data[end])
            if not is_secret_value(match.group(named).decode("utf-8", "replace"), value, gap, after):
                return False
        unless = self._unless[rule]
        before = match.start(named) if named else start
        if unless is not None and unless.search(data[max(low, before - CONTEXT) : before]) is not None:
            return False
        context = self._context[rule]
        if context is not None and context.search(data[max(low, start - CONTEXT) : start]) is None:
            return False
        return all(check(value) for check in self._checks[rule])

    def over_joints(self, leaf: bytes, deadline: float = inf) -> Iterator[Finding]:
        """Findings that are seen only when the joints inside them are undone, each as one span of the leaf."""
        if not has_joint(leaf):
            return
        joined = Joined(leaf)
        for finding in self.look([joined.text], joints=False, deadline=deadline).findings(0):
            if (span := joined.span(finding.start, finding.end)) is not None:
                yield finding._replace(start=span[0], end=span[1])

    def _prove(self) -> None:
        """Every rule finds its own first example, also right after an escaped line break."""
        canaries = [(i, expand(rule.examples[0], rule.name)) for i, rule in enumerate(self.rules) if rule.examples]
        leaves = [form.encode() for _, text in canaries for form in (text, f"x\\n{text}\\n")]
        found = self.scan(leaves)
        for n, (rule, _) in enumerate(canaries):
            if not found.get(2 * n) or not found.get(2 * n + 1):
                raise ScannerError(f"the scanner misses the canary of rule {self.rules[rule].name}")


def _starts(leaves: Sequence[bytes] | Sequence[str], size: int) -> list[int]:
    """Where each leaf begins in data of `size` bytes, and where one after the last would."""
    starts = list(accumulate(map((1).__add__, map(len, leaves)), initial=1))
    if starts[-1] != size:  # characters of more than one byte
        sizes = (len(leaf if isinstance(leaf, bytes) else leaf.encode("utf-8", "replace")) + 1 for leaf in leaves)
        starts = list(accumulate(sizes, initial=1))
    return starts


def _end_of(data: bytes, start: int, end: int, high: int) -> int:
    tail = _ENDS.get(data[start - 1 : start], _ENDS[b""]).match(data, end, high)
    return tail.end() if tail else end


def _regions(ends: list[int], rule: Rule, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Windows around match ends, merged where they meet, so that no byte is confirmed twice."""
    if -1 in ends:
        yield low, high
        return
    begin, stop = -1, -1
    for end in sorted(ends):
        if begin < 0:
            begin = max(low, end - rule.lead)
        elif end - rule.lead > stop:
            yield begin, stop
            begin = end - rule.lead
        stop = min(high, end + rule.reach)
    yield begin, stop


def resolve(findings: list[Finding]) -> list[Finding]:
    """One finding per place: the rule of higher precedence names it, and a longer one around it widens it."""
    kept: list[Finding] = []
    starts: list[int] = []
    for finding in sorted(set(findings), key=lambda f: (f.rank, f.start, -f.end)):
        first, last = bisect_right(starts, finding.start), bisect_left(starts, finding.end)
        first -= bool(first and kept[first - 1].end > finding.start)
        over = kept[first:last]
        if over:
            if finding.start > over[0].start or over[-1].end > finding.end:
                continue
            finding = min(over, key=lambda k: k.rank)._replace(start=finding.start, end=finding.end)
        kept[first:last], starts[first:last] = [finding], [finding.start]
    return kept
