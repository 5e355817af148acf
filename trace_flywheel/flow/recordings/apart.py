"""Recordings held out of training: whole tasks by their hash, and nothing in training that is asked there.

A recording's split is that of its task, by the hash and the seed of the pipeline's splits, so it never moves while the
share stands. Of the others a recording leaves that begins with the same question, or whose user turns are near those of
one that is held out, if need be through a chain; so does a single row that answers a question which is asked there.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import orjson

from trace_flywheel.curation.sketch import Spans
from trace_flywheel.curation.splits import crossing, split_of
from trace_flywheel.flow.recordings.choice import entries_of, frame_of
from trace_flywheel.flow.recordings.rows import Harvest
from trace_flywheel.records.canonical import folded
from trace_flywheel.records.message import text_of
from trace_flywheel.settings import Splits

REASON = "crosses_held_out"
"""Why a recording or a row is in neither file."""


class Apart(msgspec.Struct, frozen=True):
    """The recordings that take part, rows that would leak taken from them; which are held out; what left and why."""

    harvests: list[Harvest]
    held_out: frozenset[str] = frozenset()
    """Trace ids."""
    left: list[dict[str, Any]] = []
    """Recordings that left whole."""
    rows_left: int = 0
    """Rows of these, and single rows of others."""


def apart(harvests: Sequence[Harvest], splits: Splits, seed: int, threshold: float) -> Apart:
    """Divide recordings; `splits.held_out` is the share."""
    held = [split_of(one.rollout.task_id, splits, seed) == "held_out" for one in harvests]
    first = {next(_questions(one), "") for one, out in zip(harvests, held, strict=True) if out}
    near = _near(harvests, splits, seed, threshold)
    asked = {
        folded(one.turns[draft.user]["content"])
        for one, out in zip(harvests, held, strict=True)
        for draft in one.drafts
        if out and draft.user is not None
    }
    stay, left, rows_left = [], [], 0
    for i, one in enumerate(harvests):
        if not held[i] and (i in near or next(_questions(one), "") in first):
            told = {"path": one.rollout.source.path, "rollout_id": one.rollout.trace_id, "rows": len(one.drafts)}
            left.append({**told, "reason": REASON, **near.get(i, {})})
            rows_left += len(one.drafts)
            continue
        drafts = tuple(
            draft
            for draft in one.drafts
            if held[i] or draft.user is None or folded(one.turns[draft.user]["content"]) not in asked
        )
        rows_left += len(one.drafts) - len(drafts)
        stay.append(msgspec.structs.replace(one, drafts=drafts))
    out = frozenset(one.rollout.trace_id for one, is_out in zip(harvests, held, strict=True) if is_out)
    return Apart(stay, out, left, rows_left)


def _near(harvests: Sequence[Harvest], splits: Splits, seed: int, threshold: float) -> dict[int, dict[str, Any]]:
    """By position the recordings of training near one that is held out, with the neighbour."""
    entries = entries_of(harvests, {})
    frame = frame_of(entries)
    prompt = Spans.of_columns([e.prompt_sketch for e in entries], [e.prompt_shingles for e in entries])
    table = crossing(frame, np.ones(len(frame), dtype=bool), prompt, splits, seed, threshold)
    found = {}
    for row, evidence in zip(table["row"].tolist(), table["evidence"], strict=True):
        told = orjson.loads(evidence)
        found[row] = {"near": told["near"]["trace_id"], "jaccard_prompt": told["jaccard_prompt"]}
    return found


def _questions(one: Harvest) -> Iterator[str]:
    """The user turns, as they are compared."""
    return (folded(text_of(m.content)) for m in one.messages if m.role == "user")
