"""Corpora for tests: rows given as texts, cut into segments as one likes."""

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from trace_flywheel.curation.segment import Segment, described
from trace_flywheel.curation.sketch import Spans
from trace_flywheel.curation.standing import Corpus, Part


def digest(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def segment_of(prompts: Sequence[str], answers: Sequence[str], names: Sequence[str], first: int = 0) -> Segment:
    """Rows `first + 1`, `first + 2` …, whose text lies at `first`, `first + 1` …"""
    places = range(first, first + len(names))
    hashes = [digest(name) for name in names]
    return described([p + 1 for p in places], places, hashes, Spans.of_texts(prompts), Spans.of_texts(answers))


def corpus_of(prompts: Sequence[str], answers: Sequence[str], names: Sequence[str], cuts: Sequence[int] = ()) -> Corpus:
    """The corpus `train.jsonl`, cut before the rows `cuts`."""

    def reread(places: np.ndarray) -> tuple[Spans, Spans]:
        rows = places.tolist()
        return Spans.of_texts([prompts[r] for r in rows]), Spans.of_texts([answers[r] for r in rows])

    bounds = [0, *sorted(cuts), len(names)]
    pieces = [slice(a, b) for a, b in pairwise(bounds)]
    segments = tuple(segment_of(prompts[s], answers[s], names[s], s.start) for s in pieces)
    return Corpus((Part("train.jsonl", segments, reread),))
