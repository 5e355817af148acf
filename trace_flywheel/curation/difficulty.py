"""How hard a task is for those who tried it: pass rates over its comparable attempts, before any filter.

pass@k = 1 - C(n - c, k) / C(n, k) for c passes in n attempts: the unbiased estimator of Chen et al. 2021 (Evaluating
Large Language Models Trained on Code); null where fewer than k were made. A task has zero signal where all rewards are
equal: no advantage can come of it. Attempts meet under one grader, version and scale only, and a task whose digest
changed is another task.
"""

from math import comb

import numpy as np
import pandas as pd

from trace_flywheel.curation.comparable import COMPARABLE, codes, finite_reward, scored

KS = (1, 2, 4, 8)
TASK = ("task_id", "task_digest")
"""What makes two attempts attempts at one task."""


def pass_at_k(n: int, passes: int, k: int) -> float | None:
    """Chance that one of k attempts passes; None where k is more than n."""
    return None if k > n else 1.0 - comb(n - passes, k) / comb(n, k)


def pass_rates(frame: pd.DataFrame, members: np.ndarray) -> pd.DataFrame:
    """`n` and `passes` of the task of every row, under its grader, version and scale."""
    counts = members & scored(frame) & frame["verdict"].notna().to_numpy(dtype=bool)
    cell = codes(frame, [*TASK, *COMPARABLE])
    passed = counts & (frame["verdict"] == "pass").to_numpy(dtype=bool)
    size = int(cell.max()) + 1 if len(cell) else 0
    found = {name: np.bincount(cell[mask], minlength=size)[cell] for name, mask in (("n", counts), ("passes", passed))}
    return pd.DataFrame(found)


def task_difficulty(frame: pd.DataFrame, members: np.ndarray) -> pd.DataFrame:
    """One row per task and comparable grader, sorted. `members` masks the attempts that count.

    Columns: `task_id`, `task_digest`, grader columns, `n` (attempts with verdict and score), `passes`, `pass_at_1` …
    `pass_at_8`, `zero_signal`, `last_seen` (the latest finish, as recorded; None where none is).
    """
    counts = members & scored(frame) & frame["verdict"].notna().to_numpy(dtype=bool)
    names = [*TASK, *COMPARABLE]
    part = frame.loc[counts, [*names, "finished_at"]].astype({"finished_at": object})
    part = part.assign(passed=(frame.loc[counts, "verdict"] == "pass"), reward=finite_reward(frame)[counts])
    groups = part.groupby(codes(part, names), sort=True)
    table = (
        groups[names]
        .first(skipna=False)
        .assign(
            n=groups.size().astype("int64"),
            passes=groups["passed"].sum().astype("int64"),
            zero_signal=groups["reward"].max() == groups["reward"].min(),
            last_seen=groups["finished_at"].agg(
                lambda times: max((t for t in times if isinstance(t, str)), default=None)
            ),
        )
    )
    for k in KS:
        rates = [pass_at_k(n, c, k) for n, c in zip(table["n"].tolist(), table["passes"].tolist(), strict=True)]
        table[f"pass_at_{k}"] = np.array(rates, dtype=np.float64)
    ordered = [name for name in table.columns if name not in ("zero_signal", "last_seen")]
    shown: pd.DataFrame = table[[*ordered, "zero_signal", "last_seen"]]
    return shown.sort_values(names, ignore_index=True, na_position="first")
