"""Findings turned into placeholders: in a leaf's text, and in a name that has to stay a name."""

from bisect import bisect_right
from operator import itemgetter
from urllib.parse import quote

from trace_flywheel.redaction.identities import masked_name
from trace_flywheel.redaction.joints import Joined
from trace_flywheel.redaction.jsontext import Leaf
from trace_flywheel.redaction.marks import Marks
from trace_flywheel.redaction.spans import Finding
from trace_flywheel.redaction.spread import Known


def value_of(data: bytes, finding: Finding) -> str:
    """The value found, joints inside it undone."""
    value = data[finding.start : finding.end]
    if b"\\" not in value and b"+" not in value and b"%" not in value:
        return value.decode("utf-8", "replace")
    text, found = Joined(value).text.decode("utf-8", "replace"), value.decode("utf-8", "replace")
    # A percent sign may be the value's own: what is decoded has to give what was found when it is encoded again.
    return text if "%" not in found or quote(text, safe="").lower() == found.lower() else found


def text_of(leaf: Leaf, findings: list[Finding], known: Known, marks: Marks, told: list[tuple[str, str]]) -> str:
    """A leaf's text with placeholders for its findings and for every known value in it; `told` gets (rule, value)."""
    data = leaf.data()
    spans = [(f.start, f.end, value_of(data, f), f.rule.name) for f in findings]
    for start, end, value, rule in known.spans(data):
        i = bisect_right(spans, start, key=itemgetter(0))
        if (not i or spans[i - 1][1] <= start) and (i == len(spans) or end <= spans[i][0]):
            spans.insert(i, (start, end, value, rule))
    if not spans:
        return leaf.text
    out, last = bytearray(), 0
    for start, end, value, rule in spans:
        out += data[last:start] + marks.of(value, rule).encode()
        told.append((rule, value))
        last = end
    return (out + data[last:]).decode("utf-8", "replace")


def name_with_marks(text: str, findings: list[Finding]) -> str:
    """The name with placeholders, and a hash of it that leaves out what is no token of a known format."""
    data, marks = text.encode("utf-8", "replace"), Marks([text])
    shown, hashed, last = bytearray(), bytearray(), 0
    for finding in findings:
        mark = marks.of(value_of(data, finding), finding.rule.name).encode()
        shown += data[last : finding.start] + mark
        hashed += data[last : finding.start] + (data[finding.start : finding.end] if finding.rule.body else mark)
        last = finding.end
    return masked_name((shown + data[last:]).decode("utf-8", "replace"), bytes(hashed + data[last:]))
