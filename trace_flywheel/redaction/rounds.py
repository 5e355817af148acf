"""Values without findings: look, replace, and look again until nothing is found.

Every round looks only at what the round before changed, all else having been seen; the last look is the second scan
that fails closed. What cannot be replaced (a key, a name, a number) ends the record.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trace_flywheel.redaction.budget import Budget
from trace_flywheel.redaction.jsontext import Leaf
from trace_flywheel.redaction.looking import NO_NAMES, Looker, SecretLeftError, Seen, Sight, bytes_of, node_at
from trace_flywheel.redaction.marks import Marks
from trace_flywheel.redaction.replacing import text_of, value_of
from trace_flywheel.redaction.spans import Finding, starts_of
from trace_flywheel.redaction.spread import Known, strong

ROUNDS = 4
"""A replacement can bring two neighbours together into a new finding; each round looks again at what changed."""


class NumberFindingError(Exception):
    """A long integer is a finding: numbers never change, so the record cannot stay."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


def cleaned(
    looker: Looker, values: list[Any], seconds: float, names: Mapping[str, str] = NO_NAMES
) -> tuple[set[int], list[tuple[int, str, str]]]:
    """Replaces findings in the values, in place, until none is left: the places touched, and each replacement as
    (place, rule, value). `names` (text to field) are not replaced: they hold no secret and no value of elsewhere.
    """
    touched: set[int] = set()
    told: list[tuple[int, str, str]] = []
    sight = looker.sight(values, range(len(values)), names)
    if sight is not None:
        budget = Budget(seconds)
        with budget.enforced():
            _clean(looker, sight, values, budget, names, touched, told)
    return touched, told


def _clean(
    looker: Looker,
    sight: Sight,
    values: list[Any],
    budget: Budget,
    names: Mapping[str, str],
    touched: set[int],
    told: list[tuple[int, str, str]],
) -> None:
    """The rounds; the first of them has been looked at."""
    seen = looker.judged(sight, budget)
    known, marks = Known(), Marks(values if seen.marked else ())
    for n in range(ROUNDS):
        if not seen.found:
            return
        _refuse_fixed(seen.found)
        if fresh := _strong_values(seen.found):
            if n:
                texts = [*map(bytes_of, values), *map(bytes_of, names)]
                seen.data = b"\n".join((b"", *texts, b""))
                seen.starts = starts_of(texts, len(seen.data))
            _add_holding(seen, known, values, names, fresh)
        todo = _replace(seen, values, known, marks, told)
        touched.update(todo)
        again = looker.sight(values, todo)
        if again is None:
            return
        seen = looker.judged(again, budget)
    if seen.found:
        raise SecretLeftError(next(iter(seen.found.values()))[0].rule.name)


def _replace(seen: Seen, values: list[Any], known: Known, marks: Marks, told: list[tuple[int, str, str]]) -> list[int]:
    """Placeholders into every value taken apart; the places that changed."""
    changed = []
    for i in sorted(seen.nodes):
        node = seen.nodes[i]
        here: list[tuple[str, str]] = []
        if node.leaf is not None:
            text = text_of(node.leaf, seen.found.get(node.leaf, []), known, marks, here)
        else:
            text = node.render(lambda leaf: text_of(leaf, seen.found.get(leaf, []), known, marks, here))  # noqa: B023
        told += [(i, rule, value) for rule, value in here]
        if text != node.text:
            values[i] = text if isinstance(values[i], str) else json.loads(text)
            changed.append(i)
    return changed


def _refuse_fixed(found: Mapping[Leaf, list[Finding]]) -> None:
    """Findings where nothing is replaced: in keys, then in numbers."""
    for leaf, findings in found.items():
        if leaf.is_key:
            raise SecretLeftError(findings[0].rule.name, place="key")
    for leaf, findings in found.items():
        if leaf.number:
            raise NumberFindingError(findings[0].rule.name)


def _strong_values(found: Mapping[Leaf, list[Finding]]) -> list[tuple[str, str]]:
    """(value, rule) of what is removed wherever else it stands. Personal data goes only where it was found."""
    rules: dict[str, str] = {}
    for leaf, findings in found.items():
        for finding in findings:
            if finding.rule.family != "personal":
                rules.setdefault(value_of(leaf.data(), finding), finding.rule.name)
    return [(value, rule) for value, rule in rules.items() if strong(value)]


def _add_holding(
    seen: Seen, known: Known, values: Sequence[Any], names: Mapping[str, str], fresh: Sequence[tuple[str, str]]
) -> None:
    """The other values that hold a known one, taken apart. Raises `SecretLeftError` where a key or a name holds one.

    `seen` is of all values and names."""
    for place in known.held(seen.data, fresh):
        i = min(bisect_right(seen.starts, place) - 1, len(values) + len(names) - 1)
        if i >= len(values):
            name = list(names)[i - len(values)]
            _refuse([name], known, field=names[name])
        elif i not in seen.nodes:
            seen.nodes[i] = node_at(values[i])
    for node in seen.nodes.values():
        _refuse(node.key_texts(), known, place="key")


def _refuse(texts: Iterable[str], known: Known, **where: str) -> None:
    """Raise `SecretLeftError` where a known value stands in a text that never changes."""
    for text in texts:
        if rule := next((rule for *_, rule in known.spans(bytes_of(text))), None):
            raise SecretLeftError(rule, **where)
