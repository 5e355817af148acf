"""`python -m benchmarks.redaction_rival`: our redaction beside a bare one of the prototype's structure, in one run.

The rival is what remains when everything but finding and replacing is left out: three Hyperscan databases (literals
with `SINGLEMATCH`; digits; IBAN), one buffer a trial, RE2 in a window of 260 bytes before a match's end, Luhn and mod
97, typed and numbered placeholders. It takes no JSON apart, undoes no escapes, spreads no value, counts nothing and
scans nothing twice. Its 86 patterns are ours: the first 81 of the short form, e-mail, assignments, card, phone, IBAN.

Rows are as in a corpus of agent runs: every third row holds an e-mail address or a card number, one in forty a token.
Both take turns on the same rows; printed is the median ratio.
"""

import random
import re
import statistics
import time
from collections.abc import Callable, Sequence

import hyperscan
import re2

from benchmarks.text import text
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.redaction.personal import card, email, iban, phone_us
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.redaction.rules import expand, rules_of

TRIALS, MESSAGES, SIZE, ROUNDS = 40, 30, 1_000, 7
LITERALS, WINDOW = 81, 260
DIGITS = (r"[^0-9.][1-9]\d{3}[ -]?\d{4}[ -]?\d{4}[ -]?\d{2}", r"\d{3}[-.)] ?\d{3}[-.]\d{3}")


class Rival:
    """Three databases and a window."""

    def __init__(self) -> None:
        short = [rule for rule in rules_of("none") if rule.body and not rule.detect][:LITERALS]
        known = {rule.name: rule for rule in rules_of("standard")}
        wide = [known["email"], known["secret"]]
        self._names = [rule.name for rule in short + wide] + ["credit_card", "us_phone_number", "iban"]
        confirms = [rule.pattern() for rule in short + wide]
        confirms += [known[name].pattern() for name in ("credit_card", "us_phone_number", "iban")]
        self._confirm = [re2.compile(pattern.encode()) for pattern in confirms]
        self._single = len(short)
        checks: dict[str, Callable[[str], bool]] = {"email": email, "credit_card": card, "us_phone_number": phone_us}
        self._checks = [({**checks, "iban": iban}).get(name) for name in self._names]
        expressions = [rule.expression() for rule in short + wide]
        single = [hyperscan.HS_FLAG_SINGLEMATCH] * len(short) + [0] * len(wide)
        first = len(expressions)
        self._databases = [
            _database(expressions, range(first), single),
            _database(DIGITS, (first, first + 1), (0, 0)),
            _database([known["iban"].expression()], (first + 2,), (0,)),
        ]

    def redact(self, texts: Sequence[str]) -> list[str]:
        data = "\x00".join(texts).encode()
        hits: list[tuple[int, int]] = []

        def on_match(rule: int, _start: int, end: int, _flags: int, _context: object) -> None:
            hits.append((rule, end))

        for database in self._databases:
            database.scan(data, match_event_handler=on_match)
        if not hits:
            return list(texts)
        spans: list[tuple[int, int, int]] = []
        for rule, end in set(hits):
            low, high = (0, len(data)) if rule < self._single else (max(0, end - WINDOW), end + WINDOW)
            for match in self._confirm[rule].finditer(data, low, min(high, len(data))):
                group = next((i for i in range(match.re.groups, 0, -1) if match.start(i) >= 0), 0)
                check = self._checks[rule]
                if check is None or check(match.group(group).decode("utf-8", "replace")):
                    spans.append((match.start(group), match.end(group), rule))
        out, last, numbers = bytearray(), 0, dict[bytes, int]()
        for start, end, rule in sorted(spans):
            if start >= last:
                number = numbers.setdefault(data[start:end], len(numbers) + 1)
                out += data[last:start] + f"[REDACTED:{self._names[rule]}:{number}]".encode()
                last = end
        return (out + data[last:]).decode().split("\x00")


def _database(expressions: Sequence[str], ids: Sequence[int], flags: Sequence[int]) -> hyperscan.Database:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=[e.encode() for e in expressions], ids=list(ids), flags=list(flags))
    return database


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


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def ratios() -> tuple[float, float, float]:
    """(ours / rival, our MB/s, the rival's MB/s), medians of rounds in turn."""
    rows = trials(42)
    rollouts = [
        Rollout("r", f"t{n}", "k", Source("s", "p", "0" * 64), tuple(Message("user", t) for t in texts))
        for n, texts in enumerate(rows)
    ]
    size = sum(len(t) for texts in rows for t in texts) / 1e6
    rival, ours = Rival(), redactor("standard")
    assert sum(bool(re.search(r"\[REDACTED", "".join(rival.redact(texts)))) for texts in rows) >= TRIALS // 3
    told: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        mine = seconds(lambda: [ours.redact(rollout) for rollout in rollouts])
        told.append((mine, seconds(lambda: [rival.redact(texts) for texts in rows])))
    ratio = statistics.median(a / b for a, b in told)
    return ratio, size / statistics.median(a for a, _ in told), size / statistics.median(b for _, b in told)


if __name__ == "__main__":
    ratio, mine, bare = ratios()
    print(f"ours {mine:.0f} MB/s, the bare structure {bare:.0f} MB/s: {ratio:.2f} times its time")
