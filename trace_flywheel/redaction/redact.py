"""What a finding becomes: a typed, numbered placeholder, or no rollout at all.

Invariants: redaction works inside parsed values and never changes a key, a number, a boolean or a null; placeholders
are numbered by first appearance inside the rollout and one value has one placeholder; redacting twice changes nothing;
what still matches after redaction is dropped, and so is a rollout with a secret in a key or a name, and one that a rule
fails on. A drop names rules, not values.
"""

from collections import Counter
from functools import cache
from typing import Any, TypeVar

import msgspec
import orjson

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.redaction.budget import Budget, RuleTimeoutError
from trace_flywheel.redaction.depth import LIMIT, DeepDataError, brackets, deep_field, deeper_than
from trace_flywheel.redaction.fields import Taking, visit
from trace_flywheel.redaction.gather import Gathered
from trace_flywheel.redaction.identities import Named, names_of, with_names
from trace_flywheel.redaction.looking import Looker, node_at
from trace_flywheel.redaction.looking import SecretLeftError as SecretLeftError  # the room's public names
from trace_flywheel.redaction.marks import PLACEHOLDER as PLACEHOLDER
from trace_flywheel.redaction.policy import Allowed, Policy, Sighting, fingerprint, policy_named
from trace_flywheel.redaction.replacing import name_with_marks
from trace_flywheel.redaction.rounds import NumberFindingError as NumberFindingError
from trace_flywheel.redaction.rounds import cleaned
from trace_flywheel.redaction.rules import Rule
from trace_flywheel.redaction.scanner import Scanner
from trace_flywheel.redaction.second_gate import found_by_kingfisher
from trace_flywheel.redaction.strings import strings_of, with_strings
from trace_flywheel.redaction.tokens import without_tokens

Record = TypeVar("Record")
BUDGET = 300.0
"""Seconds for one record, all rounds (`budget`)."""


class Redactor:
    """Redacts rollouts and plain data. One per process and profile (`redactor`); threads may share it."""

    def __init__(self, scanner: Scanner, policy: Policy = Policy(), budget: float = BUDGET) -> None:  # noqa: B008
        self._budget = budget
        self._allowed = Allowed(policy)
        self._looker = Looker(scanner, self._allowed)
        self._key = policy.key
        self._second_gate = policy.second_gate

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
        gathered = Gathered(rollout)
        values, tokens = gathered.values, gathered.spelled()
        texts = len(values)
        values += [text for text, _ in tokens]
        touched, seen = cleaned(self._looker, values, self._budget, gathered.names)
        if not touched:
            clean = rollout if rollout.redactions is not None else msgspec.structs.replace(rollout, redactions={})
            return clean, ()
        taking = Taking(values, {i for i in touched if i < texts})
        visited = visit(rollout, taking)
        owners = taking.owners
        told = set(owners.values())
        if tokens:
            owners = owners | {texts + i: owner for i, (_, owner) in enumerate(tokens)}
            # What tokens spell is told where no text of theirs was: it goes with them and is no second finding.
            seen = [(i, rule, value) for i, rule, value in seen if i < texts or owners[i] not in told]
        redacted, removed = without_tokens(visited, told | {owners[i] for i in touched})
        total = dict(rollout.redactions or {})
        for _, rule, _ in seen:
            total[rule] = total.get(rule, 0) + 1
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
        _, seen = cleaned(self._looker, values, self._budget)
        return values[0], tuple(
            Sighting(place, rule, fingerprint(self._key, found) if self._key else "") for _, rule, found in seen
        )

    def scan(self, value: Any) -> dict[str, int]:
        """Findings in plain JSON data or a text as it stands, by rule: string values, keys and long integers.

        A rule at work when the budget is spent counts as one that found something."""
        counts: Counter[str] = Counter()
        try:
            seen = self._looker.look([value], [0], Budget(self._budget))
        except RuleTimeoutError as slow:
            return {slow.rule: 1}
        for findings in seen.found.values() if seen else ():
            counts.update(finding.rule.name for finding in findings)
        if self._second_gate == "kingfisher":
            text = "\n".join(f"{leaf.key}: {leaf.text}" if leaf.key else leaf.text for leaf in node_at(value).leaves())
            counts.update(rule for rule, secret in found_by_kingfisher(text) if secret not in self._allowed)
        return dict(sorted(counts.items()))

    @property
    def judges_texts_apart(self) -> bool:
        """Whether the findings in a value are those of its texts and keys, each by itself: a second gate sees texts
        side by side."""
        return self._second_gate == "none"

    def scan_line(self, line: bytes) -> dict[str, int]:
        """`scan` of a row that stands as a line of JSON, an object as orjson writes it: parsed only where a detector
        sees something."""
        if self._second_gate != "none":
            return self.scan(orjson.loads(line))
        if brackets(line) > LIMIT and deeper_than(orjson.loads(line), LIMIT):
            raise DeepDataError
        try:
            found = self._looker.look_at_line(line, Budget(self._budget))
        except RuleTimeoutError as slow:
            return {slow.rule: 1}
        if found is None:
            return self.scan(orjson.loads(line))
        if not found:
            return {}
        counts = Counter(finding.rule.name for findings in found.values() for finding in findings)
        return dict(sorted(counts.items()))

    def masked(self, record: Named) -> Named:
        """A rollout or drop with secrets masked in the names it goes by; the same object where there are none."""
        names = {text for text, _ in names_of(record)}
        masks = {text: name_with_marks(text, findings) for text, findings in self._looker.in_names(sorted(names))}
        return with_names(record, masks) if masks else record

    def masked_record(self, record: Record) -> Record:
        """A record for other programs with secrets masked in its strings; the same object where there are none."""
        names = sorted(set(strings_of(record)))
        masks = {text: name_with_marks(text, findings) for text, findings in self._looker.in_names(names)}
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
        return next((name_with_marks(text, findings) for _, findings in self._looker.in_names([text])), text)

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


def redactor(policy: Policy | str) -> Redactor:
    """The process's redactor of a policy or a profile (`none`, `standard`, `all`); its detectors are proven on their
    canaries, and every rule is before its first verdict."""
    return _redactor(policy_named(policy))


@cache
def _redactor(policy: Policy) -> Redactor:
    return Redactor(_scanner(policy.in_force()), policy)


@cache
def _scanner(rules: tuple[Rule, ...]) -> Scanner:
    """Policies that differ in what they tell or allow share one."""
    return Scanner(rules, as_needed=True)
