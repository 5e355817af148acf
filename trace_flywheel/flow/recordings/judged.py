"""The judgments that meet the rows of recordings."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import msgspec

from trace_flywheel.flow.judgments import Judgment, Judgments, Policy, combined, names, preview
from trace_flywheel.flow.recordings.rows import Harvest


class Judged(msgspec.Struct):
    """Judgments by (rollout, draft), and the mean score of each judged rollout."""

    of: dict[tuple[int, int], list[Judgment]]
    rollouts: dict[int, float]


def judged_of(harvests: Sequence[Harvest], judgments: Judgments | None, policy: Policy) -> Judged:
    """What each row was judged; nothing where no judgments came."""
    if judgments is None:
        return Judged({}, {})
    of, rollouts = {}, {}
    for i, one in enumerate(harvests):
        source, scores = one.rollout.source.path, []
        for k, draft in enumerate(one.drafts):
            own = judgments.of_row(one.rollout.trace_id, source, draft.step, draft.row_hash)
            of[i, k] = own
            if (score := combined(own, policy)) is not None:
                scores.append(score)
        if scores:
            rollouts[i] = fmean(scores)
    return Judged(of, rollouts)


def judge_report(judgments: Judgments, judged: Judged, policy: Policy) -> dict[str, Any]:
    """What became of the judgments, and how many rows each threshold would keep."""
    found = list(judged.of.values())
    return {
        "rows_judged": sum(bool(own) for own in found),
        "rows_unjudged": sum(not own for own in found),
        "judgments_unmatched": judgments.unmatched,
        "conflicts": judgments.conflicts,
        "names": names(found),
        "kept_at_threshold": preview([combined(own, policy) for own in found]),
    }
