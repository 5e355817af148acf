"""How what a detector saw is judged: the patterns of one rule, compiled, and the texts that prove a rule."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import re2

from trace_flywheel.redaction.assignment import is_secret_value
from trace_flywheel.redaction.budget import UNLIMITED, Budget
from trace_flywheel.redaction.marks import OPENS
from trace_flywheel.redaction.patterns import Search, Spans, searching
from trace_flywheel.redaction.rules import Rule, expand
from trace_flywheel.redaction.spans import end_of, regions
from trace_flywheel.redaction.wrapping import continued

Check = Callable[[str], bool]
CONTEXT = 240
"""Bytes before a value in which a rule's context word may stand."""
VALUE_WINDOW = 320
"""Bytes in which an assignment is looked for and judged: a refused one costs little however long its value is."""
MEMORY = 64 << 20
"""Bytes that the automaton of one pattern may grow to."""


class ScannerError(RuntimeError):
    """The scanner cannot be trusted: a canary was missed or a rule does not compile."""


class Judge(NamedTuple):
    """A rule and its patterns."""

    rule: Rule
    search: Search
    """The confirm pattern."""
    named: int
    """Its group that is the name of what is assigned; 0 without one."""
    values: tuple[int, ...]
    """Its other groups: the first that took part is the value."""
    detect: Search | None
    """The detector once more; None for a rule of the short form, whose confirm pattern is the detector with more before
    and behind it."""
    context: Any
    unless: Any

    def confirmed(
        self,
        checks: Sequence[Check],
        data: bytes,
        ends: list[int],
        low: int,
        high: int,
        budget: Budget = UNLIMITED,
        taken: Sequence[tuple[int, int]] = (),
    ) -> Iterator[tuple[int, int]]:
        """`Scanner.confirmed` by these validators."""
        search, named, at = self.search, self.named, 0
        # Behind the last place that the detector saw there is nothing more, unless what it saw is the context before.
        final = max(ends) if self.context is None and min(ends) >= 0 else len(data)
        budget.rule = self.rule.name
        refused: dict[bytes, int] = {}
        for begin, stop in regions(ends, self.rule, low - 1, high + 1):
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
                for group in self.values:
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
                agreed = start < end and self._agrees(checks, spans, data, start, end, low)
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

    def _agrees(self, checks: Sequence[Check], spans: Spans, data: bytes, start: int, end: int, low: int) -> bool:
        """Whether detector, assignment, context and validators all hold of this very match, given by its groups' spans.

        The detector is asked again about the match alone, so that a verdict depends on no window and no engine.
        """
        value = data[start:end].decode("utf-8", "replace")
        first, last = spans[0]
        context, unless = self.context, self.unless
        begin = first if context is None else max(low - 1, first - CONTEXT)
        if self.detect is not None and self.detect(data, begin, last + 1) is None:
            return False
        before = start
        if named := self.named:
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
        return all(check(value) for check in checks)


def judge_of(rule: Rule) -> Judge:
    """Raises `ScannerError` for what RE2 does not take."""
    options = re2.Options()
    options.max_mem = MEMORY
    try:
        confirm = re2.compile(rule.pattern().encode(), options)
        named = confirm.groupindex.get(b"name", 0)
        apart = rule.detect or rule.confirm
        return Judge(
            rule,
            searching(confirm),
            named,
            tuple(group for group in range(1, confirm.groups + 1) if group != named),
            searching(re2.compile(rule.expression().encode(), options)) if apart else None,
            re2.compile(rule.context.encode(), options) if rule.context else None,
            re2.compile(rule.unless.encode(), options) if rule.unless else None,
        )
    except Exception as error:  # the library raises its own types; every one means the same here
        raise ScannerError(f"a redaction rule does not compile: {error}") from error


def forms_of(rule: Rule) -> tuple[bytes, bytes]:
    """The canary of a rule with examples: its first one, and that right after an escaped line break."""
    text = expand(rule.examples[0], rule.name)
    return text.encode(), f"x\\n{text}\\n".encode()
