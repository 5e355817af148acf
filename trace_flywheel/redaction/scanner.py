"""Finds fast: one detector pass over a whole rollout, then RE2 in small windows, then validators.

Stage 1 scans the concatenated leaves once per database. Stage 2 confirms in a window around each match, never across a
leaf. Hyperscan and RE2 sets give the same verdicts; the second is the fallback where Hyperscan has no wheel. A scanner
proves itself on canary strings: its detectors before it is used, a rule before its first verdict.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from trace_flywheel.redaction.budget import UNLIMITED, Budget
from trace_flywheel.redaction.engines import Engine, HyperscanEngine, Re2Engine, best_engine
from trace_flywheel.redaction.joints import DETECTORS, SPELT_DETECTOR, Joined, has_joint
from trace_flywheel.redaction.judges import Judge, forms_of, judge_of
from trace_flywheel.redaction.judges import ScannerError as ScannerError  # it is this module's to raise
from trace_flywheel.redaction.marks import DETECTOR as MARK_DETECTOR
from trace_flywheel.redaction.rules import Rule
from trace_flywheel.redaction.spans import Finding, resolve, starts_of
from trace_flywheel.redaction.validators import VALIDATORS

SEPARATOR = b"\n"
"""Stands before, between and after the leaves: no value holds it at its ends, and patterns see a boundary."""


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

    def ends(self, leaf: int, rule: int) -> list[int]:
        """Where matches of a rule's detector end that touch a leaf."""
        return [] if self.calm else self._hits.get(leaf, {}).get(rule, [])

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

    def __init__(
        self,
        rules: Sequence[Rule],
        engine: type[HyperscanEngine] | type[Re2Engine] | None = None,
        as_needed: bool = False,
    ) -> None:
        """`as_needed`: a rule is compiled and proven when its detector first matches, because all of them take a
        process longer than much of what it looks at. Nothing passes by a rule until then: detectors are proven here."""
        self.rules = tuple(rules)
        try:
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
        self._checks = [[VALIDATORS[c] for c in rule.check] for rule in self.rules]
        self._judges: list[Judge | None] = [None for _ in self.rules]
        canaries = [(i, form) for i, rule in enumerate(self.rules) if rule.examples for form in forms_of(rule)]
        seen = self.look([form for _, form in canaries])
        for leaf, (rule, form) in enumerate(canaries):
            if not seen.ends(leaf, rule):
                self._canary(rule, form)
        if not as_needed:
            for rule in range(len(self.rules)):
                self._judge(rule)

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
        `taken`, sorted spans of rules that go before this one: it would change nothing. Raises `ScannerError` where the
        rule fails its proof."""
        return self._judge(rule).confirmed(self._checks[rule], data, ends, low, high, budget, taken)

    def over_joints(self, leaf: bytes, budget: Budget = UNLIMITED) -> Iterator[Finding]:
        """Findings that are seen when the joints in a leaf are undone, each as one span of the leaf."""
        if not has_joint(leaf):
            return
        joined = Joined(leaf)
        for finding in self.look([joined.text], joints=False).findings(0, budget):
            start, end = joined.span(finding.start, finding.end)
            yield finding._replace(start=start, end=end)

    def _judge(self, rule: int) -> Judge:
        """How a rule confirms, proven: it finds its own first example, also right after an escaped line break."""
        if (known := self._judges[rule]) is not None:
            return known
        made, checks = judge_of(self.rules[rule]), self._checks[rule]
        for form in forms_of(self.rules[rule]) if self.rules[rule].examples else ():
            look = self._canary(rule, form)
            if not any(made.confirmed(checks, look.data, look.ends(0, rule), 1, len(look.data) - 1)):
                raise self._misses(rule)
        self._judges[rule] = made
        return made

    def _canary(self, rule: int, form: bytes) -> Look:
        """A look at a rule's canary in which its detector matches, as it stands or with its joints undone."""
        for text in (form, Joined(form).text) if has_joint(form) else (form,):
            look = self.look([text], joints=False)
            if look.ends(0, rule):
                return look
        raise self._misses(rule)

    def _misses(self, rule: int) -> ScannerError:
        return ScannerError(f"the scanner misses the canary of rule {self.rules[rule].name}")
