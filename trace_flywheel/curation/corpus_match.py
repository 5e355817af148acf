"""Which new rows a corpus holds already, word for word or nearly: by position, with the evidence of each.

Without a table library, which `convert` has no other use for: it is 50 MB of any process.
"""

from collections.abc import Sequence
from typing import Any

from trace_flywheel.curation.near_kernel import NONE
from trace_flywheel.curation.sketch import Spans
from trace_flywheel.curation.standing import Corpus

Evidence = dict[str, Any]


def equal_rows(hashes: Sequence[str], corpus: Corpus) -> dict[int, Evidence]:
    """Of rows by their `exact_hash`, those that the corpus holds word for word."""
    match = corpus.equal(list(hashes)).tolist()
    return {at: {"corpus": corpus.name(row)} for at, row in enumerate(match) if row != NONE}


def near_rows(prompt: Spans, supervised: Spans, corpus: Corpus, threshold: float) -> dict[int, Evidence]:
    """Of rows by prompt and supervised text, those that are near a row of the corpus in both."""
    match, scores = corpus.near(prompt, supervised, threshold)
    return {
        at: {"corpus": corpus.name(row), **measured(pair, threshold)}
        for at, (row, pair) in enumerate(zip(match.tolist(), scores.tolist(), strict=True))
        if row != NONE
    }


def measured(scores: Sequence[float], threshold: float) -> Evidence:
    """What the evidence of a near-duplicate says: Jaccard of the prompts and of the supervised texts."""
    of_prompt, of_supervised = scores
    return {
        "jaccard_prompt": round(of_prompt, 4),
        "jaccard_supervised": round(of_supervised, 4),
        "threshold": threshold,
    }
