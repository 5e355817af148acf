"""Scored answers that no preference pair uses, each good or bad by itself: what a trainer without pairs learns from.

A rollout's label is its reward's, else its judges'. An answer that a pair holds already is not given again, and of
equal ones one stands for all, unless they were scored both ways: then nobody knows which is right.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from trace_flywheel.flow.recordings.choice import entries_of
from trace_flywheel.flow.recordings.pairs import pairs_of
from trace_flywheel.flow.recordings.rows import Harvest
from trace_flywheel.records.rows import KtoRow, Provenance, row_id_of
from trace_flywheel.trainers.episode import task_turns
from trace_flywheel.trainers.kto import LAYOUT as KTO
from trace_flywheel.trainers.layout import Row

GOOD_REWARD = 0.5
"""Reward from which an answer is good: rewards of 0 and 1, or -1 and 1, are told apart whatever lies between."""
LABELS = (("good", True), ("bad", False))


class Unpaired(msgspec.Struct, frozen=True):
    row: KtoRow
    label: str | None
    """The recording's task."""
    by: Literal["reward", "judge"]
    score: float


class AllUnpaired(msgspec.Struct):
    """The rows, by path, and by reason the rollouts that gave none."""

    rows: list[Unpaired] = msgspec.field(default_factory=list)
    none: dict[str, int] = msgspec.field(default_factory=dict)


def unpaired_of(
    harvests: Sequence[Harvest], scores: Mapping[int, float], min_margin: float, threshold: float
) -> AllUnpaired:
    """One row for each scored rollout outside the pairs of `pairs_of`; `threshold` is of judge scores."""
    entries = entries_of(harvests, scores)
    paired = {
        trace for pair in pairs_of(harvests, scores, min_margin).pairs for trace in pair.pair.provenance.trace_ids
    }
    held = {entry.content_hash for entry in entries if entry.trace_id in paired}
    none: Counter[str] = Counter()
    candidates: dict[str, list[Unpaired]] = {}
    for i, entry in enumerate(entries):
        rollout = harvests[i].rollout
        score = entry.reward if entry.reward is not None else entry.judge_score
        if entry.content_hash in held:
            none["used_in_pair"] += 1
        elif rollout.correction is not None:
            none["corrected_without_pair"] += 1
        elif entry.pair_quality_reason is not None:
            none[entry.pair_quality_reason] += 1
        elif score is None:
            none["no_score"] += 1
        else:
            by: Literal["reward", "judge"] = "judge" if entry.reward is None else "reward"
            good = score >= (GOOD_REWARD if by == "reward" else threshold)
            found = Unpaired(_row(harvests[i], good), rollout.suite, by, score)
            candidates.setdefault(entry.content_hash, []).append(found)
    answer = AllUnpaired()
    for same in candidates.values():
        if len({one.row.label for one in same}) > 1:
            none["conflicting_label"] += len(same)
        else:
            none["exact_duplicate"] += len(same) - 1
            answer.rows.append(min(same, key=lambda one: one.row.provenance.source))
    answer.rows.sort(key=lambda one: one.row.provenance.source)
    answer.none = {reason: n for reason, n in sorted(none.items()) if n}
    return answer


def _row(harvest: Harvest, good: bool) -> KtoRow:
    rollout = harvest.rollout
    split = task_turns(rollout.messages)
    prompt, completion = rollout.messages[:split], rollout.messages[split:]
    row_id = row_id_of(prompt, completion)
    provenance = Provenance(
        row_id=row_id,
        kind="kto",
        task_id=rollout.task_id,
        run_id=rollout.run_id,
        trace_ids=(rollout.trace_id,),
        grader=rollout.grader,
        rewards=(rollout.reward,),
        source=(f"{rollout.source.path}#{rollout.source.sha256}",),
        transforms=("redacted",) if rollout.redactions else (),
    )
    return KtoRow(row_id, prompt, completion, good, rollout.tools, provenance)


def kto_row(found: Unpaired, task: str | None) -> Row:
    """The row as it is written: TRL's shape and where it came from."""
    told = found.row.provenance
    return next(iter(KTO.kto_rows(found.row))) | {
        "task": task if task is not None else found.label,
        "labelled_by": found.by,
        "score": found.score,
        "rollout_id": told.trace_ids[0],
        "source": told.source[0],
        "transforms": list(told.transforms),
    }
