"""Kernels against their rivals on the same texts: sketches, redaction, row validation; and near-duplicates found.

Every contestant is a process that measures its own CPU over texts it holds, so imports and reading do not count.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from benchmarks import rivals
from benchmarks.corpus import attempts, shaped
from benchmarks.folders import TOOLS, messages_of
from benchmarks.measure import Cost, cost_of, interleaved, ratio
from benchmarks.suites import Asked, Result
from benchmarks.suites.end_to_end import write_patterns
from trace_flywheel.curation.depth import seed_set

PLAIN = Path(rivals.__file__).parent / "plain.py"
SCHEMA = Path(__file__).parents[2] / "schemas" / "messages-row.v1.schema.json"
PAIRS: dict[str, tuple[tuple[str, float | None], ...]] = {
    "sketch": (("update", 100.0), ("datasketch", 10.0), ("rensa", 5.0)),
    "redact": (("re", 100.0),),
    "validate": (("jsonschema", 20.0),),
}
"""Per kernel the rivals and the least ratio."""
DEPTH_GATE = 2.0
SLOW = 20
"""Texts that a rival gets which takes a tenth of a second for each."""


def measure(asked: Asked) -> Iterator[Result]:
    texts, rows = asked.work / "texts.jsonl", asked.work / "rows.jsonl"
    _write(asked, texts, rows)
    patterns, schema = asked.work / "patterns.json", asked.work / "schema.json"
    write_patterns(patterns)
    schema.write_bytes(SCHEMA.read_bytes())
    programs = rivals.made(rivals.SKETCHES) if asked.rivals else None
    for kernel, against in PAIRS.items():
        of = rows if kernel == "validate" else texts
        contestants = {kernel: partial(cost_of, [sys.executable, "-m", "benchmarks.own", kernel, of, asked.rollouts])}
        for name, _ in against if programs is not None else ():
            given: list[Any] = [of, SLOW if name in ("re", "update") else asked.rollouts]
            given += [patterns] if name == "re" else [schema] if name == "jsonschema" else []
            contestants[name] = partial(cost_of, [programs / "python", PLAIN, name, *given])
        costs = interleaved(contestants, asked.rounds)
        own = _rates(costs[kernel])
        told = f"{sorted(own)[len(own) // 2]:.0f} MB/s"
        if programs is None:
            yield Result("kernels", kernel, told)
        for name, gate in against if programs is not None else ():
            theirs = _rates(costs[name])
            yield Result("kernels", f"{kernel} against {name}", told, f"{theirs[0]:.2f} MB/s", ratio(own, theirs), gate)
    yield _depth(asked)
    found = json.loads(cost_of([sys.executable, "-m", "benchmarks.own", "recall", texts, asked.seed]).out)
    yield Result("kernels", f"near-duplicates among {found['texts']} texts", found["told"])


def _depth(asked: Asked) -> Result:
    """Labels of 300-character prompts against scikit-learn making the n-grams alone."""
    prompts = asked.work / "prompts.jsonl"
    prompts.write_bytes(b"".join(orjson.dumps((row.prompt * 9)[:300]) + b"\n" for row in seed_set()))
    own = [sys.executable, "-m", "benchmarks.own"]
    contestants = {name: partial(cost_of, [*own, name, prompts, 10_000]) for name in ("depth", "ngrams")}
    costs = interleaved(contestants, asked.rounds)
    told = [[json.loads(cost.out) for cost in costs[name]] for name in contestants]
    rates = [[one["items"] / one["cpu"] for one in found] for found in told]
    texts = [f"{sorted(found)[len(found) // 2]:,.0f} prompts/s" for found in rates]
    return Result("kernels", "depth against HashingVectorizer", *texts, ratio(*rates), DEPTH_GATE)


def _rates(costs: Sequence[Cost]) -> list[float]:
    said = [json.loads(cost.out) for cost in costs]
    return [one["bytes"] / 1e6 / one["cpu"] for one in said]


def _write(asked: Asked, texts: Path, rows: Path) -> None:
    with texts.open("wb") as text_file, rows.open("wb") as row_file:
        for one in attempts(shaped(asked.rollouts, seed=asked.seed)):
            messages = messages_of(one)
            text_file.write(orjson.dumps("\n".join(m["content"] for m in messages)) + b"\n")
            row_file.write(orjson.dumps({"messages": messages, "tools": TOOLS, "row_id": one.name}) + b"\n")
