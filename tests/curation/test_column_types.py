"""Every decision is the same whatever column types a frame comes with: Parquet gives others than records do."""

import io

import pandas as pd
import pytest

from tests.curation.index_frames import everyone, fates, index_frame
from trace_flywheel.curation.advantages import group_table
from trace_flywheel.curation.convertible import convertible
from trace_flywheel.curation.dedup import precedence
from trace_flywheel.curation.preference import build_pairs
from trace_flywheel.curation.quality import quality_drops
from trace_flywheel.curation.ragged import Ragged
from trace_flywheel.curation.same_rollout import conflicting_ids, same_rollout
from trace_flywheel.curation.selection import task_cap, top_fraction
from trace_flywheel.settings import Groups, Pairs, Selection

ROWS = [
    {"trace_id": "a", "reward": 0.9, "finished_at": "2026-01-01T00:00:00Z", "policy_version": "1"},
    {"trace_id": "b", "reward": 0.8, "judge_score": 0.5},
    {"trace_id": "c", "verdict": "fail", "reward": 0.2, "error_by": "agent", "error_category": "timeout"},
    {"trace_id": "d", "verdict": "fail", "reward": 0.1, "quality_reason": "truncated"},
    {"trace_id": "e", "verdict": None, "verdict_text": "PASS"},
    {"trace_id": "f", "reward": None, "error_by": "infrastructure", "error_category": "crash"},
    {"trace_id": "g", "run_id": "root/b", "source_run_id": "run-a"},
]
LOST = pd.DataFrame([{"task_id": "other", "agent": None, "model": None, "job": None}])


def decisions(frame):
    every = everyone(frame)
    hashes = Ragged.of([[1, i] for i in range(len(frame))])
    table = group_table(frame, every, Groups(unscored="exclude"), LOST)
    return (
        fates(frame, conflicting_ids(frame)),
        fates(frame, same_rollout(frame, every)),
        fates(frame, convertible(frame, every, "sft", {"atraj": "accept"})),
        fates(frame, convertible(frame, every, "pair", {})),
        fates(frame, quality_drops(frame, every, "sft")),
        fates(frame, top_fraction(frame, every, Selection(), 42).drops),
        fates(frame, task_cap(frame, every, 1, 42)),
        precedence(frame).tolist(),
        table.astype(object).where(table.notna(), None).to_dict("list"),
        fates(frame, build_pairs(frame, every, every, lambda _: (hashes, hashes), Pairs(), 42).drops),
    )


@pytest.mark.parametrize("rows", [ROWS, ROWS[:2], ROWS[:1]])
def test_parquet_and_records_decide_alike(rows):
    frame = index_frame(*rows)
    stored = io.BytesIO()
    frame.to_parquet(stored)
    assert decisions(pd.read_parquet(stored)) == decisions(frame)
