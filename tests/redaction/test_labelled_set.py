"""Recall on the labelled positives and calm on the hard negatives, as issue 6 judges them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.redaction.redact import Redactor, redactor

pytestmark = pytest.mark.corpus
Corpus = Callable[[str], Path]


def rows(corpus: Corpus, name: str) -> list[dict[str, Any]]:
    lines = (corpus("secrets") / name).read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def hidden(found_by: Redactor, row: dict[str, Any], text: str) -> bool:
    redacted, _ = found_by.redact_value(text)
    spans = [row["text"][start:end] for start, end in row["spans"]]
    return all(line not in redacted for span in spans for line in span.split("\n") if "PRIVATE KEY" not in line)


WRAPS: dict[str, Callable[[str], str]] = {
    "as it stands": lambda text: text,
    "arguments": lambda text: json.dumps({"cmd": text}),
    "nested arguments": lambda text: json.dumps({"body": json.dumps({"text": text})}),
    "escaped inside text": lambda text: f"observation: {json.dumps(text)} end",
    "diff": lambda text: "\n".join("+" + line for line in text.split("\n")),
    "removed in a diff": lambda text: "\n".join("-" + line for line in text.split("\n")),
    "code block": lambda text: f"```\n{text}\n```",
}


@pytest.mark.parametrize("wrap", WRAPS)
def test_recall(corpus: Corpus, wrap: str) -> None:
    missed = [
        row["id"]
        for row in rows(corpus, "positives.jsonl")
        if not hidden(redactor("all"), row, WRAPS[wrap](row["text"]))
    ]
    total = len(rows(corpus, "positives.jsonl"))
    assert len(missed) <= 0.01 * total, missed


@pytest.mark.parametrize("wrap", WRAPS)
def test_hard_negatives_stay(corpus: Corpus, wrap: str) -> None:
    negatives = rows(corpus, "negatives.jsonl")
    touched = [
        row["id"] for row in negatives if redactor("all").redact_value(text := WRAPS[wrap](row["text"]))[0] != text
    ]
    assert len(touched) <= 0.005 * len(negatives), touched
