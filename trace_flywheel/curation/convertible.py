"""Stage `convertible`: a verdict, and a reward where one is needed. What lacks one is routed back, never guessed.

SFT rows need a reward to be ranked; corrections, failing rollouts with step verdicts and rollouts of a source set to
`ungraded = accept` are not ranked and need none. Pairs and RL rows always need one, and a failure of infrastructure
or verifier gives none.
"""

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import unquote

import numpy as np
import pandas as pd

from trace_flywheel.curation.comparable import failed_around, finite_reward
from trace_flywheel.curation.decisions import drops, records
from trace_flywheel.records.fate import Stage

Kind = Literal["sft", "pair", "rl"]


def run_id_mismatch(frame: pd.DataFrame) -> np.ndarray:
    """Mask of the rollouts whose data names another run than the folder they were found in."""
    folder = frame["run_id"].map({run: unquote(run.rsplit("/", 1)[-1]) for run in frame["run_id"].unique()})
    named = frame["source_run_id"]
    mask: np.ndarray = (named.notna() & (named != folder)).to_numpy(dtype=bool)
    return mask


def accepted_ungraded(frame: pd.DataFrame, ungraded: Mapping[str, str]) -> np.ndarray:
    """Mask of the rollouts that no one graded and whose source format is set to `accept`."""
    formats = [name for name, rule in ungraded.items() if rule == "accept"]
    silent = frame["verdict"].isna() & frame["verdict_text"].isna()
    mask: np.ndarray = (silent & frame["source_format"].isin(formats)).to_numpy(dtype=bool)
    return mask


def convertible(frame: pd.DataFrame, alive: np.ndarray, kind: Kind, ungraded: Mapping[str, str]) -> pd.DataFrame:
    """The drops among `alive`. `ungraded` maps a source format to `accept` or `needs_grading` and concerns SFT."""
    graded = frame["verdict"].notna().to_numpy(dtype=bool)
    missing = np.isnan(finite_reward(frame))
    if kind == "sft":
        accepted = accepted_ungraded(frame, ungraded)
        by_steps = (frame["verdict"] == "fail").to_numpy(dtype=bool) & frame["has_step_verdicts"].to_numpy(dtype=bool)
        graded = graded | accepted
        unranked = accepted | by_steps | frame["has_correction"].to_numpy(dtype=bool)
        unscored = missing & ~unranked
    else:
        unscored = missing | failed_around(frame)
    spelt = missing & frame["reward_text"].notna().to_numpy(dtype=bool)
    # Verifiers that write a reward only give no verdict where it cannot be read: the reward is the fault to name.
    by_reward = ~graded & spelt & frame["verdict_text"].isna().to_numpy(dtype=bool)
    found = [run_id_mismatch(frame), by_reward, ~graded, unscored & spelt, unscored]
    reasons = ["run_id_mismatch", "non_finite_reward", "no_verdict", "non_finite_reward", "no_reward"]
    first = np.select(found, range(5), default=5)
    rows = np.flatnonzero(alive & (first < 5))
    columns = ["run_id", "source_run_id", "verdict_text", "reward_text", "error_by", "error_category", "source_path"]
    evidence = (
        _evidence(reasons[code], row)
        for code, row in zip(first[rows].tolist(), records(frame[columns], rows), strict=True)
    )
    return drops(Stage.CONVERTIBLE, rows, [reasons[code] for code in first[rows].tolist()], evidence)


_SHOWN = {
    "run_id_mismatch": {"run_id": "run_id", "source_run_id": "source_run_id"},
    "no_verdict": {"verdict_text": "verdict"},
    "non_finite_reward": {"reward_text": "reward"},
    "no_reward": {"error_by": "error_by", "error_category": "error_category"},
}


def _evidence(reason: str, row: Mapping[Any, Any]) -> dict[str, Any]:
    shown = {name: row[column] for column, name in _SHOWN[reason].items() if not pd.isna(row[column])}
    return {**shown, "path": row["source_path"]}
