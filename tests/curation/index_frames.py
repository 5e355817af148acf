"""Index frames for tests: one dictionary a rollout, defaults for all it does not say."""

import hashlib
from typing import Any

import numpy as np
import pandas as pd

DEFAULTS: dict[str, Any] = {
    "run_id": "root/run-a",
    "task_id": "task",
    "task_digest": None,
    "agent": None,
    "model": None,
    "policy_version": None,
    "job": None,
    "source_format": "eval_run",
    "source_path": "run-a/results.json",
    "source_run_id": None,
    "started_at": None,
    "finished_at": None,
    "verdict": "pass",
    "verdict_text": None,
    "reward": 1.0,
    "reward_text": None,
    "reward_low": None,
    "reward_high": None,
    "judge_score": None,
    "judge": None,
    "grader": "exact_match",
    "grader_version": None,
    "error_category": None,
    "error_by": None,
    "is_truncated": False,
    "never_called": False,
    "retried": False,
    "has_correction": False,
    "has_step_verdicts": False,
    "quality_reason": None,
    "quality_evidence": None,
    "pair_quality_reason": None,
    "context_hash": "context",
    "roles": "ua",
}
FLOATS = ("reward", "reward_low", "reward_high", "judge_score")


def index_frame(*rows: dict[str, Any]) -> pd.DataFrame:
    """Sorted by (run_id, trace_id) as the flow does; `content` seeds the content hash (default: the trace id)."""
    full = []
    for row in rows:
        content = hashlib.sha256(str(row.get("content", row["trace_id"])).encode()).hexdigest()[:32]
        address = f"{row.get('run_id', DEFAULTS['run_id'])}/{row['trace_id']}/{content}"
        hashes = {"content_hash": content, "attempt_hash": address, "exact_hash": content}
        full.append({**DEFAULTS, **hashes, **{k: v for k, v in row.items() if k != "content"}})
    frame = pd.DataFrame(full, columns=["trace_id", *DEFAULTS, *hashes])
    frame = frame.astype(dict.fromkeys(FLOATS, "float64"))
    return frame.sort_values(["run_id", "trace_id"], kind="stable", ignore_index=True)


def everyone(frame: pd.DataFrame) -> np.ndarray:
    return np.ones(len(frame), dtype=bool)


def fates(frame: pd.DataFrame, drops: pd.DataFrame) -> dict[str, str]:
    """`{trace_id: "stage/reason"}` of the dropped."""
    return {
        frame["trace_id"].iat[row]: f"{stage}/{reason}"
        for row, stage, reason in zip(drops["row"], drops["stage"], drops["reason"], strict=True)
    }
