"""`python -m benchmarks.redaction_rival`: our redaction beside a bare one of the prototype's structure, in one run.

The rival is what remains when everything but finding and replacing is left out: Hyperscan databases (literals with
`SINGLEMATCH`; what begins with digits or classes in databases of its own), one buffer a trial, RE2 in a window before a
match's end, validators, typed and numbered placeholders. It takes no JSON apart, undoes no escapes, spreads no value,
lists no names, counts nothing and is interrupted by nothing. Measured twice: without a second scan, and with that of
every redacted row, which belongs to the structure where nothing may slip through; ours always has one.

Both have the same rules, `standard` as it stands: detectors, confirm patterns, contexts and validators. On plain text
they find the same, which is checked before anything is measured.

Rows are as in a corpus of agent runs: every third row holds an e-mail address or a card number, one in forty a token.
Both take turns on the same rows; printed are median ratios, of all rows and of each kind.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import hyperscan
import re2

from benchmarks.text import text
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.redaction.assignment import is_secret_value
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.redaction.rules import Rule, expand, rules_of
from trace_flywheel.redaction.validators import VALIDATORS

TRIALS, MESSAGES, SIZE, ROUNDS = 40, 30, 1_000, 15
WINDOW, CONTEXT = 260, 240


class Rival:
    """Databases and windows."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._names = [rule.name for rule in rules]
        self._confirm = [re2.compile(rule.pattern().encode()) for rule in rules]
        self._named = [p.groupindex.get(b"name", 0) for p in self._confirm]
        self._checks = [[VALIDATORS[check] for check in rule.check] for rule in rules]
        self._context = [re2.compile(rule.context.encode()) if rule.context else None for rule in rules]
        self._unless = [re2.compile(rule.unless.encode()) if rule.unless else None for rule in rules]
        self._single = [not rule.detect and not rule.confirm for rule in rules]
        """Rare tokens: whether they are anywhere is asked once, and RE2 looks through the trial."""
        self._databases = []
        for name in dict.fromkeys(rule.database for rule in rules):
            ids = [i for i, rule in enumerate(rules) if rule.database == name]
            database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
            database.compile(
                expressions=[rules[i].expression().encode() for i in ids],
                ids=ids,
                flags=[hyperscan.HS_FLAG_SINGLEMATCH * self._single[i] for i in ids],
            )
            self._databases.append(database)

    def redact(self, texts: Sequence[str], again: bool = False) -> list[str]:
        """The texts without findings; with `again` scanned once more where there were any."""
        data = "\x00".join(texts).encode()
        spans = self._spans(data)
        if not spans:
            return list(texts)
        out, last, numbers = bytearray(), 0, dict[bytes, int]()
        for start, end, rule in sorted(spans):
            if start >= last:
                number = numbers.setdefault(data[start:end], len(numbers) + 1)
                out += data[last:start] + f"[REDACTED:{self._names[rule]}:{number}]".encode()
                last = end
        clean = bytes(out + data[last:])
        if again and self._spans(clean):
            raise ValueError("a finding is left")
        return clean.decode().split("\x00")

    def _spans(self, data: bytes) -> list[tuple[int, int, int]]:
        hits: list[tuple[int, int]] = []

        def on_match(rule: int, _start: int, end: int, _flags: int, _context: object) -> None:
            hits.append((rule, end))

        for database in self._databases:
            database.scan(data, match_event_handler=on_match)
        spans: list[tuple[int, int, int]] = []
        for rule, end in set(hits):
            low, high = (0, len(data)) if self._single[rule] else (max(0, end - WINDOW), min(end + WINDOW, len(data)))
            named = self._named[rule]
            for match in self._confirm[rule].finditer(data, low, high):
                group = next((i for i in range(1, match.re.groups + 1) if i != named and match.start(i) >= 0), 0)
                start, stop = match.span(group)
                if self._agrees(rule, match, data, start, stop):
                    spans.append((start, stop, rule))
        return spans

    def _agrees(self, rule: int, match: "re2._Match", data: bytes, start: int, end: int) -> bool:
        value, before = data[start:end].decode("utf-8", "replace"), start
        if named := self._named[rule]:
            before, behind = match.span(named)
            name, gap = data[before:behind].decode("utf-8", "replace"), data[behind:start].decode("utf-8", "replace")
            if not is_secret_value(name, value, gap, chr(data[end]) if end < len(data) else "\n"):
                return False
        context, unless = self._context[rule], self._unless[rule]
        if unless is not None and unless.search(data[max(0, before - CONTEXT) : before]) is not None:
            return False
        if context is not None and context.search(data[max(0, start - CONTEXT) : start]) is None:
            return False
        return all(check(value) for check in self._checks[rule])


def trials(seed: int) -> list[list[str]]:
    """Texts of messages by trial."""
    rng = random.Random(seed)
    made = []
    for number in range(TRIALS):
        texts = [text(rng, SIZE) for _ in range(MESSAGES)]
        if number % 3 == 0:
            found = "lindqvist@adventure-works.com" if number % 2 else "4111 1111 1111 1111"
            texts[3] += f"\ncontact {found} about it\n"
        if number % 40 == 7:
            texts[5] += f"\nexport GITHUB_TOKEN={expand('gh{|}p_{a36}', str(number))}\n"
        made.append(texts)
    return made


def kind_of(number: int) -> str:
    """What a trial of this number holds."""
    return "a token" if number % 40 == 7 else "clean" if number % 3 else "an address or a card"


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


class Told(NamedTuple):
    """Medians of rounds in turn."""

    ratio: float
    """Our time by the rival's."""
    ratio_twice: float
    """By that of the rival that scans redacted rows again."""
    ours: float
    """MB/s."""
    rival: float


def ratios(rounds: int = ROUNDS) -> dict[str, Told]:
    """By kind of row. Raises `AssertionError` where the two find something different."""
    rows = trials(42)
    rollouts = [
        Rollout("r", f"t{n}", "k", Source("s", "p", "0" * 64), tuple(Message("user", t) for t in texts))
        for n, texts in enumerate(rows)
    ]
    rival, ours = Rival(rules_of("standard")), redactor("standard")
    for texts, rollout in zip(rows, rollouts, strict=True):
        redacted = ours.redact(rollout)
        assert isinstance(redacted, Rollout)
        assert [m.content for m in redacted.messages] == rival.redact(texts)
    kinds = ("all", *dict.fromkeys(map(kind_of, range(TRIALS))))
    chosen = {kind: [n for n in range(TRIALS) if kind in ("all", kind_of(n))] for kind in kinds}
    told = {kind: list[tuple[float, float, float]]() for kind in kinds}
    for _ in range(rounds):
        for kind, numbers in chosen.items():
            todo = numbers * (1 if kind == "all" else TRIALS // len(numbers))
            works: tuple[Callable[[int], object], ...] = (
                lambda i: ours.redact(rollouts[i]),
                lambda i: rival.redact(rows[i]),
                lambda i: rival.redact(rows[i], True),
            )
            mine, bare, twice = (seconds(lambda todo=todo, work=work: [*map(work, todo)]) for work in works)
            told[kind].append((mine / len(todo), bare / len(todo), twice / len(todo)))
    mean = {kind: sum(len(t) for i in n for t in rows[i]) / 1e6 / len(n) for kind, n in chosen.items()}
    return {
        kind: Told(
            statistics.median(a / b for a, b, _ in rounds_of),
            statistics.median(a / c for a, _, c in rounds_of),
            mean[kind] / statistics.median(a for a, _, _ in rounds_of),
            mean[kind] / statistics.median(b for _, b, _ in rounds_of),
        )
        for kind, rounds_of in told.items()
    }


if __name__ == "__main__":
    for kind, told in ratios().items():
        print(
            f"{kind}: ours {told.ours:.0f} MB/s, the bare structure {told.rival:.0f} MB/s: {told.ratio:.2f} times its"
            f" time, {told.ratio_twice:.2f} times with its second scan"
        )
