"""Speed as ratios inside one run, never absolute: against plain `re` on the same rules."""

import re
import time

import pytest

from benchmarks.redaction_rival import ratios
from tests.redaction.texts import rollout
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.redaction.rules import rules_of

PARAGRAPH = (
    "def load(path):\n    with open(path) as handle:\n        return [line.split(',') for line in handle]\n"
    "$ pytest -q\n12 passed in 0.34s; total_tokens=1532, commit 5dfdd2a9f83d5364b3bf0a38c7ad8e137892622d\n"
    "I looked at the failing test and the error comes from the parser: it drops the last column of the table.\n"
)


@pytest.mark.slow
def test_at_least_200_times_plain_re() -> None:
    messages = [Message("user", PARAGRAPH * 3 + f"step {n}") for n in range(30)]
    size = sum(len(str(m.content)) for m in messages)
    redact = redactor("standard").redact
    start = time.process_time()
    for _ in range(50):
        assert isinstance(redact(rollout(*messages)), Rollout)
    ours = 50 * size / (time.process_time() - start)

    patterns = [re.compile(rule.pattern()) for rule in rules_of("standard")]
    sample = str(messages[0].content)
    start = time.process_time()
    for pattern in patterns:
        pattern.findall(sample)
    plain = len(sample) / (time.process_time() - start)
    assert ours > 200 * plain, f"{ours / 1e6:.0f} MB/s against {plain / 1e6:.2f} MB/s"


@pytest.mark.slow
def test_near_a_bare_structure_that_finds_the_same() -> None:
    """A guard with room for a busy machine: `python -m benchmarks.redaction_rival` measures."""
    told = ratios(rounds=5)
    assert told["all"].ratio < 2.0, told
