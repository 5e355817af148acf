"""`goldens.overlap`, held against labelled cases: what leaks an eval item and what merely resembles it.

`golden_cases.jsonl` holds 8 goldens with one preamble, 4 tasks of a corpus with the same preamble, 54 leaks (verbatim,
cut, edited, reworded) and 26 tasks of their own (templates with other values, other questions about the same files).
The figures in docs/curation.md are those of this file.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.records.golden import Golden
from trace_flywheel.records.message import Message
from trace_flywheel.settings import Goldens

DOCS = Path(__file__).parents[2] / "docs" / "curation.md"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("golden_cases.jsonl").read_text("utf-8").splitlines()
]
GOLDENS = [Golden(r["golden"]["task_id"], statement=r["golden"]["prompt"]) for r in ROWS if "golden" in r]
CASES = [row["case"] for row in ROWS if "case" in row]


def asked(text: str) -> list[Message]:
    return [Message("user", text)]


@cache
def shares() -> tuple[float, ...]:
    """Of the golden's statement in every case, what the corpus shares discounted."""
    corpus = [Holdout(GOLDENS, 0.5).find(asked(row["corpus"])).asked for row in ROWS if "corpus" in row]
    found = [Holdout(GOLDENS, 1e-9, corpus).hits(asked(case["text"])) for case in CASES]
    return tuple(float(hit["share"]) if hit else 0.0 for hit in found)


def precision_and_recall(overlap: float) -> tuple[float, float]:
    held = [case["leak"] for case, share in zip(CASES, shares(), strict=True) if share >= overlap]
    return sum(held) / len(held), sum(held) / sum(case["leak"] for case in CASES)


def test_the_cases_are_as_many_as_the_docs_say() -> None:
    leaks = sum(case["leak"] for case in CASES)
    assert (len(GOLDENS), leaks, len(CASES) - leaks) == (8, 54, 26)
    assert f"{leaks} leaks and {len(CASES) - leaks} tasks of their own" in DOCS.read_text("utf-8")


def test_the_docs_say_what_is_measured() -> None:
    table = re.findall(r"^\| (0\.\d) \| (\d\.\d\d) \| (\d\.\d\d) \|$", DOCS.read_text("utf-8"), re.MULTILINE)
    assert len(table) == 7
    for overlap, precision, recall in table:
        measured = precision_and_recall(float(overlap))
        assert (precision, recall) == tuple(f"{value:.2f}" for value in measured), overlap


def test_the_default_loses_no_task_of_its_own_and_few_leaks() -> None:
    precision, recall = precision_and_recall(Goldens().overlap)
    assert precision == 1.0
    assert recall > 0.9


def test_no_task_of_its_own_comes_near_the_default() -> None:
    most = max(share for case, share in zip(CASES, shares(), strict=True) if not case["leak"])
    assert most + 0.15 < Goldens().overlap


@pytest.mark.parametrize(
    "kind", ["verbatim", "upper case", "first fifth", "last fifth", "inside a longer", "split over"]
)
def test_a_kind_of_leak_that_is_always_found(kind: str) -> None:
    found = [
        share for case, share in zip(CASES, shares(), strict=True) if case["leak"] and case["kind"].startswith(kind)
    ]
    assert found
    assert min(found) >= Goldens().overlap


def test_words_that_were_all_replaced_are_beyond_n_grams() -> None:
    """What the search cannot find is known, and said."""
    found = [share for case, share in zip(CASES, shares(), strict=True) if "reworded" in case["kind"]]
    assert found == [0.0, 0.0]
