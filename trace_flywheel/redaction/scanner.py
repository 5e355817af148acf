"""Finds fast: one detector pass over a whole rollout, then RE2 in small windows, then validators.

Stage 1 scans the concatenated leaves once per database. Stage 2 confirms in a window around each match, never across a
leaf. Hyperscan and RE2 sets give the same verdicts; the second is the fallback where Hyperscan has no wheel. A scanner
proves itself on canary strings before it is used.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import re2

from trace_flywheel.redaction.assignment import is_secret_value
from trace_flywheel.redaction.budget import UNLIMITED, Budget
from trace_flywheel.redaction.engines import Engine, HyperscanEngine, Re2Engine, best_engine
from trace_flywheel.redaction.joints import DETECTORS, SPELT_DETECTOR, Joined, has_joint
from trace_flywheel.redaction.marks import DETECTOR as MARK_DETECTOR
from trace_flywheel.redaction.marks import OPENS
from trace_flywheel.redaction.patterns import searching
from trace_flywheel.redaction.rules import Rule, expand
from trace_flywheel.redaction.spans import Finding, end_of, regions, resolve, starts_of
from trace_flywheel.redaction.validators import VALIDATORS
from trace_flywheel.redaction.wrapping import continued

SEPARATOR = b"\n"
"""Stands before, between and after the leaves: no value holds it at its ends, and patterns see a boundary."""
CONTEXT = 240
"""Bytes before a value in which a rule's context word may stand."""
VALUE_WINDOW = 320
"""Bytes in which an assignment is looked for and judged: a refused one costs little however long its value is."""


class ScannerError(RuntimeError):
    """The scanner cannot be trusted: a canary was missed or a rule does not compile."""


class Look:
    """What the detectors saw in some leaves. `findings` confirms one leaf; others cost nothing."""

    def __init__(
        self, scanner: "Scanner", data: bytes, leaves: Sequence[bytes] | Sequence[str], joints: bool = True
    ) -> None:
        """`data` is the leaves with separators around them; where each begins is asked only when there is a hit."""
        self._scanner, self.data = scanner, data
        seen = scanner.engine.hits(data)
        hits = [hit for hit in seen if hit[0] not in scanner.told]
        told = {expression for expression, _ in seen} & scanner.told if len(hits) < len(seen) else ()
        self.marked, self.spelt, self.calm = scanner.mark in told, scanner.spelt in told, not hits
        """A placeholder stands somewhere; a letter is spelt as an escape, which in a line of JSON no detector sees; no
        detector matches, so there is no finding."""
        if self.calm:
            return
        self._hits: dict[int, dict[int, list[int]]] = {}
        self._jointed: set[int] = set()
        self.starts = starts_of(leaves, len(data))
        """Where each leaf begins in the data, and where one after the last would."""
        last = len(leaves) - 1
        for expression, end in hits:
            touched = range(len(leaves)) if end < 0 else (min(max(bisect_right(self.starts, end - 1) - 1, 0), last),)
            for leaf in touched:
                for rule in scanner.rules_of[expression]:
                    if rule < len(scanner.rules):
                        self._hits.setdefault(leaf, {}).setdefault(rule, []).append(end)
                    elif joints:
                        self._jointed.add(leaf)

    def suspects(self) -> list[int]:
        """Leaves with any detector match, in order: a superset of those with findings."""
        return [] if self.calm else sorted(self._hits.keys() | self._jointed)

    def findings(self, leaf: int, budget: Budget = UNLIMITED) -> list[Finding]:
        """Confirmed findings of a leaf, in order of place, not overlapping. Raises `RuleTimeoutError` when the time is
        over."""
        if self.calm or (leaf not in self._hits and leaf not in self._jointed):
            return []
        low, high = self.starts[leaf], self.starts[leaf + 1] - 1
        found: list[Finding] = []
        taken: list[tuple[int, int]] = []
        for rule, ends in sorted(self._hits.get(leaf, {}).items()):
            new = list(self._scanner.confirmed(rule, self.data, ends, low, high, budget, taken))
            found += [Finding(start - low, end - low, rule, self._scanner.rules[rule]) for start, end in new]
            taken = sorted(taken + new) if taken else new
        if leaf in self._jointed:
            found += self._scanner.over_joints(self.data[low:high], budget)
        return resolve(found)


class Scanner:
    """`scan` finds in leaves (UTF-8 texts). Safe to share between threads."""

    def __init__(self, rules: Sequence[Rule], engine: type[HyperscanEngine] | type[Re2Engine] | None = None) -> None:
        self.rules = tuple(rules)
        options = re2.Options()
        options.max_mem = 64 << 20
        try:
            confirm = [re2.compile(rule.pattern().encode(), options) for rule in self.rules]
            self._detect = [searching(re2.compile(rule.expression().encode(), options)) for rule in self.rules]
            self._context = [re2.compile(r.context.encode(), options) if r.context else None for r in self.rules]
            self._unless = [re2.compile(r.unless.encode(), options) if r.unless else None for r in self.rules]
            expressions = [
                *((rule.database, rule.expression()) for rule in self.rules),
                *(("literal", joint) for joint in DETECTORS),
                ("literal", MARK_DETECTOR),
                ("literal", SPELT_DETECTOR),
            ]
            unique = list(dict.fromkeys(expressions))
            self.engine: Engine = (engine or best_engine())(unique)
        except Exception as error:  # both libraries raise their own types; every one means the same here
            raise ScannerError(f"a redaction rule does not compile: {error}") from error
        places = {expression: place for place, expression in enumerate(unique)}
        # Rules by expression; an index past the last rule means a joint inside a value, or a placeholder.
        self.rules_of: list[list[int]] = [[] for _ in unique]
        self.mark, self.spelt = (places["literal", special] for special in (MARK_DETECTOR, SPELT_DETECTOR))
        self.told = frozenset((self.mark, self.spelt))  # they point at no finding
        for rank, expression in enumerate(expressions):
            self.rules_of[places[expression]].append(rank)
        # Rules of the short form: the confirm pattern is the detector with more before and behind it.
        self._implied = [not rule.detect and not rule.confirm for rule in self.rules]
        self._confirm = [searching(pattern) for pattern in confirm]
        self._name_group = [p.groupindex.get(b"name", 0) for p in confirm]
        self._value_groups = [
            [i for i in range(1, p.groups + 1) if i != named]
            for p, named in zip(confirm, self._name_group, strict=True)
        ]
        self._checks = [[VALIDATORS[c] for c in rule.check] for rule in self.rules]
        self._prove()

    def look(self, leaves: Sequence[bytes], joints: bool = True) -> "Look":
        """One detector pass over all leaves; the rest is done leaf by leaf, as asked."""
        return Look(self, b"%b%b%b" % (SEPARATOR, SEPARATOR.join(leaves), SEPARATOR), leaves, joints)

    def look_at_texts(self, texts: Sequence[str]) -> "Look":
        """`look` at texts: they are joined and encoded once. Raises `TypeError` where one is no text."""
        return Look(self, "\n".join(("", *texts, "")).encode("utf-8", "replace"), texts)

    def scan(self, leaves: Sequence[bytes], budget: Budget = UNLIMITED) -> dict[int, list[Finding]]:
        """Findings by leaf, in order of place, not overlapping. Leaves without any are left out."""
        look = self.look(leaves)
        return {leaf: found for leaf in look.suspects() if (found := look.findings(leaf, budget))}

    def confirmed(
        self,
        rule: int,
        data: bytes,
        ends: list[int],
        low: int,
        high: int,
        budget: Budget = UNLIMITED,
        taken: Sequence[tuple[int, int]] = (),
    ) -> Iterator[tuple[int, int]]:
        """Spans that pattern, validators and context agree on, by increasing place; none that lies inside one of
        `taken`, sorted spans of rules that go before this one: it would change nothing."""
        search, named, at = self._confirm[rule], self._name_group[rule], 0
        # Behind the last place that the detector saw there is nothing more, unless what it saw is the context before.
        final = max(ends) if self._context[rule] is None and min(ends) >= 0 else len(data)
        budget.rule = self.rules[rule].name
        refused: dict[bytes, int] = {}
        for begin, stop in regions(ends, self.rules[rule], low - 1, high + 1):
            at = max(at, begin)
            while at < stop and at < final:
                limit = min(stop, at + VALUE_WINDOW) if named else stop
                if named:
                    window = data[max(at - len(OPENS), 0) : limit + 1]
                    if (step := refused.get(window)) is not None:
                        at += step
                        continue
                spans = search(data, at, limit)
                if spans is None:
                    if limit == stop:
                        break
                    at = limit - VALUE_WINDOW // 2
                    continue
                first, last = spans[0]
                if last == limit and named and first > at:
                    at = first
                    continue
                if last == stop and stop <= high and not named:
                    stop = min(high + 1, stop + 4 * (stop - begin))
                    continue
                start, end = first, last
                for group in self._value_groups[rule]:
                    if spans[group][0] >= 0:
                        start, end = spans[group]
                        break
                start, end = max(start, low), min(end, high)
                if (
                    taken
                    and last < limit
                    and (i := bisect_right(taken, (start, high)))
                    and taken[i - 1][1] >= end > start
                ):
                    at = max(end, first + 1)
                    continue
                agreed = start < end and self._agrees(rule, spans, data, start, end, low)
                budget.check()
                if agreed:
                    if named and last == limit:
                        end = end_of(data, start, end, high)
                    if named:
                        end = continued(data, start, end, high)
                    yield start, end
                    at = max(end, first + 1)
                else:
                    after = start if start > first else max(last, first + 1)
                    if named:  # the same text is refused again: a word repeated without end costs one look
                        refused[window] = after - at
                    at = after

    def _agrees(self, rule: int, spans: Sequence[tuple[int, int]], data: bytes, start: int, end: int, low: int) -> bool:
        """Whether detector, assignment, context and validators all hold of this very match, given by its groups' spans.

        The detector is asked again about the match alone, so that a verdict depends on no window and no engine.
        """
        value = data[start:end].decode("utf-8", "replace")
        first, last = spans[0]
        context, unless = self._context[rule], self._unless[rule]
        begin = first if context is None else max(low - 1, first - CONTEXT)
        if not self._implied[rule] and self._detect[rule](data, begin, last + 1) is None:
            return False
        before = start
        if named := self._name_group[rule]:
            if data.endswith(OPENS, 0, first):
                return False
            before, behind = spans[named]
            name, gap = data[before:behind].decode("utf-8", "replace"), data[behind:start].decode("utf-8", "replace")
            if not is_secret_value(name, value, gap, chr(data[end])):
                return False
        if unless is not None and unless.search(data[max(low, before - CONTEXT) : before]) is not None:
            return False
        if context is not None and context.search(data[max(low, start - CONTEXT) : start]) is None:
            return False
        return all(check(value) for check in self._checks[rule])

    def over_joints(self, leaf: bytes, budget: Budget = UNLIMITED) -> Iterator[Finding]:
        """Findings that are seen when the joints in a leaf are undone, each as one span of the leaf."""
        if not has_joint(leaf):
            return
        joined = Joined(leaf)
        for finding in self.look([joined.text], joints=False).findings(0, budget):
            start, end = joined.span(finding.start, finding.end)
            yield finding._replace(start=start, end=end)

    def _prove(self) -> None:
        """Every rule finds its own first example, also right after an escaped line break."""
        canaries = [(i, expand(rule.examples[0], rule.name)) for i, rule in enumerate(self.rules) if rule.examples]
        leaves = [form.encode() for _, text in canaries for form in (text, f"x\\n{text}\\n")]
        found = self.scan(leaves)
        for n, (rule, _) in enumerate(canaries):
            if not found.get(2 * n) or not found.get(2 * n + 1):
                raise ScannerError(f"the scanner misses the canary of rule {self.rules[rule].name}")
