"""`python -m benchmarks.redaction`: redaction's speed as ratios inside one run.

Against plain `re` on the same rules, and against the bare structure of the prototype (detectors of the same rules in
Hyperscan databases and nothing else), on calm agent text and on text with a finding every few kilobytes.
"""

import random
import re
import time
from collections.abc import Callable

from benchmarks.text import text
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.redaction.engines import best_engine
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.redaction.rules import expand, rules_of

MESSAGES, SIZE, SECONDS = 30, 2_000, 2.0


def rate(work: Callable[[], object], size: int, seconds: float = SECONDS) -> float:
    """MB/s of CPU time over as many rounds as fit."""
    work()
    start, rounds = time.process_time(), 0
    while (spent := time.process_time() - start) < seconds:
        work()
        rounds += 1
    return rounds * size / spent / 1e6


def main() -> None:
    rng = random.Random(42)
    calm = [text(rng, SIZE) for _ in range(MESSAGES)]
    token = expand("gh{|}p_{a36}", "bench")
    rules = rules_of("standard")
    patterns = [re.compile(rule.pattern()) for rule in rules]
    engine = best_engine()(list(dict.fromkeys((rule.database, rule.expression()) for rule in rules)))
    redact = redactor("standard").redact
    for label, texts in (("calm", calm), ("a finding in every message", [f"{t}\nexport T={token}" for t in calm])):
        rollout = Rollout("r", "t", "k", Source("s", "p", "0" * 64), tuple(Message("user", t) for t in texts))
        size = sum(map(len, texts))
        joined = "\n".join(texts).encode()
        sample = texts[0]
        ours = rate(lambda r=rollout: redact(r), size)
        bare = rate(lambda j=joined: engine.hits(j), size)
        plain = rate(lambda s=sample: [p.findall(s) for p in patterns], len(sample))
        print(f"{label}: {ours:.0f} MB/s, {ours / plain:.0f} x plain re, 1 / {bare / ours:.1f} of the detectors alone")


if __name__ == "__main__":
    main()
