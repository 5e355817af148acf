"""Places in the data of one pass: findings, where leaves begin, where to confirm, and which finding stays."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from trace_flywheel.redaction.rules import Rule

_ENDS = {b'"': re.compile(rb'[^"\n]*'), b"'": re.compile(rb"[^'\n]*"), b"": re.compile(rb"[^\s\"'`<>,;\\]*")}


class Finding(NamedTuple):
    """Bytes `start:end` of a leaf are a value of `rule`; `rank` is the rule's precedence, smaller first."""

    start: int
    end: int
    rank: int
    rule: Rule


def starts_of(leaves: Sequence[bytes] | Sequence[str], size: int) -> list[int]:
    """Where each leaf begins in data of `size` bytes, and where one after the last would."""
    starts = list(accumulate([len(leaf) + 1 for leaf in leaves], initial=1))
    if starts[-1] != size:  # characters of more than one byte
        sizes = [len(leaf if isinstance(leaf, bytes) else leaf.encode("utf-8", "replace")) + 1 for leaf in leaves]
        starts = list(accumulate(sizes, initial=1))
    return starts


def end_of(data: bytes, start: int, end: int, high: int) -> int:
    tail = _ENDS.get(data[start - 1 : start], _ENDS[b""]).match(data, end, high)
    return tail.end() if tail else end


def regions(ends: list[int], rule: Rule, low: int, high: int) -> list[tuple[int, int]]:
    """Windows around match ends, merged where they meet, so that no byte is confirmed twice."""
    if -1 in ends:
        return [(low, high)]
    found: list[tuple[int, int]] = []
    begin = stop = -1
    for end in sorted(ends):
        if begin < 0:
            begin = max(low, end - rule.lead)
        elif end - rule.lead > stop:
            found.append((begin, stop))
            begin = end - rule.lead
        stop = min(high, end + rule.reach)
    found.append((begin, stop))
    return found


def resolve(findings: list[Finding]) -> list[Finding]:
    """One finding per place: the rule of higher precedence names it, and a longer one around it widens it."""
    if len(findings) < 2:
        return findings
    kept: list[Finding] = []
    starts: list[int] = []
    once = {finding[:3]: finding for finding in findings}  # a rule itself is much to hash
    for finding in sorted(once.values(), key=lambda f: (f.rank, f.start, -f.end)):
        first, last = bisect_right(starts, finding.start), bisect_left(starts, finding.end)
        first -= bool(first and kept[first - 1].end > finding.start)
        over = kept[first:last]
        if over:
            if finding.start > over[0].start or over[-1].end > finding.end:
                continue
            finding = min(over, key=lambda k: k.rank)._replace(start=finding.start, end=finding.end)
        kept[first:last], starts[first:last] = [finding], [finding.start]
    return kept
