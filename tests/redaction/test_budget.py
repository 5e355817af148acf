"""A judgement that never returns is ended, and names its rule; no validator is one."""

import itertools
import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.redaction.texts import rollout
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.message import Message
from trace_flywheel.redaction.assignment import is_secret_value, whole_value_is_secret
from trace_flywheel.redaction.budget import Budget, RuleTimeoutError
from trace_flywheel.redaction.redact import Redactor
from trace_flywheel.redaction.rules import rules_of
from trace_flywheel.redaction.scanner import Scanner
from trace_flywheel.redaction.stream import redact_stream
from trace_flywheel.redaction.validators import VALIDATORS

GITHUB = "ghp_" + "Zb9" * 12


def loop(value: str) -> bool:
    while True:
        pass


def swallow(value: str) -> bool:
    """Takes the first interruption for its own trouble."""
    try:
        return loop(value)
    except RuntimeError:
        return loop(value)


def backtrack(value: str) -> bool:
    return bool(re.fullmatch(r"(?:[a-zA-Z0-9_]+)*!", value * 2))


def sleep(value: str) -> bool:
    time.sleep(60)
    return True


def hanging(monkeypatch: pytest.MonkeyPatch, check: Callable[[str], bool]) -> Redactor:
    scanner = Scanner(rules_of("standard"))
    slow = [rule.name for rule in scanner.rules].index("github_token")
    checks = [[check] if i == slow else checks for i, checks in enumerate(scanner._checks)]
    monkeypatch.setattr(scanner, "_checks", checks)
    return Redactor(scanner, budget=0.3)


@pytest.mark.parametrize("check", [loop, swallow, backtrack, sleep])
def test_a_validator_that_never_returns_drops_with_its_rule(
    monkeypatch: pytest.MonkeyPatch, check: Callable[[str], bool]
) -> None:
    redact = hanging(monkeypatch, check)
    drop = redact.redact(rollout(Message("user", "a text"), Message("user", f"me@contoso.com {GITHUB}")))
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.evidence) == ("rule_failed", {"rule": "github_token", "text": "not done after 0.3 s"})
    assert redact.scan(json.dumps({"a": GITHUB})) == {"github_token": 1}
    (left,) = redact_stream([(1, GITHUB)], redact)
    assert (left.text, left.reason, left.rule) == (None, "rule_failed", "github_token")
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert redact.redact_value("mail me@contoso.com")[1] == {"email": 1}


def test_in_a_thread_too(monkeypatch: pytest.MonkeyPatch) -> None:
    redact, results = hanging(monkeypatch, swallow), list[object]()
    thread = threading.Thread(target=lambda: results.append(redact.redact(rollout(Message("user", GITHUB)))))
    thread.start()
    thread.join(30)
    (drop,) = results
    assert isinstance(drop, Drop)
    assert drop.evidence["rule"] == "github_token"


def test_somebody_elses_timer_is_left_alone() -> None:
    signal.setitimer(signal.ITIMER_REAL, 600)
    try:
        budget = Budget(0.1)
        budget.rule = "mine"
        with pytest.raises(RuleTimeoutError, match="mine"), budget.enforced():
            loop("")
        assert 500 < signal.getitimer(signal.ITIMER_REAL)[0] <= 600
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_nothing_is_interrupted_in_time() -> None:
    budget = Budget(0.2)
    with budget.enforced():
        pass
    time.sleep(0.3)
    with pytest.raises(RuleTimeoutError):
        budget.check()


PIECES = (
    "a",
    "A",
    "aA",
    "Aa",
    "a1",
    "_",
    "a_",
    "a.",
    "a b ",
    "1",
    "-",
    "a-",
    "=",
    "a:",
    "\\",
    "a@",
    "1.",
    "é",
    "@a.",
    "*",
)
ENDS = ("", "é", "!", " ", "\x00", "(", "'")


def shapes(size: int) -> Iterator[str]:
    for lead, piece, end in itertools.product(("", "foo."), PIECES, ENDS):
        yield lead + piece * (size // len(piece)) + end


JUDGES: dict[str, Callable[[str], object]] = {
    **VALIDATORS,
    "assigned": lambda value: is_secret_value("db_password", value, " = "),
    "quoted": lambda value: is_secret_value("db_password", value, ' = "'),
    "argument": lambda value: is_secret_value("api_token", value, '", "'),
    "in prose": lambda value: is_secret_value("token", value, " is "),
    "whole value": whole_value_is_secret,
}


@pytest.mark.parametrize("judge", JUDGES)
def test_no_value_takes_a_validator_long(judge: str) -> None:
    slowest: tuple[float, str] = (0.0, "")
    for value in shapes(4_000):
        start = time.process_time()
        try:
            JUDGES[judge](value)
        except (ValueError, IndexError):
            continue  # no value that its rule's pattern gives
        slowest = max(slowest, (time.process_time() - start, value[:9] + value[-1:]))
    assert slowest[0] < 0.5, slowest
