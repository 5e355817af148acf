"""The two assets over all runs that are no datasets: group advantages and the depth classifiers, kept in the lake."""

from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from trace_flywheel.curation.difficulty import task_difficulty
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.depth.train import trained
from trace_flywheel.flow.freshness import advantages_digest, classifier_digest
from trace_flywheel.flow.funnel import Attempts
from trace_flywheel.flow.names import ADVANTAGES, classifier_of
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake.ledger import Ledger
from trace_flywheel.records.fate import Stage

DIFFICULTY = "task_difficulty"
"""Table beside the advantages: pass@k of every task."""


def grouped_advantages(curation: Curation) -> Made:
    """The advantage of every attempt in its group, over all runs, before any filter; beside it what tasks are hard."""
    lake, digest = curation.lake, advantages_digest(curation)
    current = lake.whole(ADVANTAGES)
    fresh = current is not None and current.inputs_digest == digest
    if current is None or not fresh:
        keys = curation.index.frame[["run_id", "trace_id", "task_id", "reward"]]
        groups = curation.attempts.groups
        plain = groups.astype({name: "str" for name, kind in groups.dtypes.items() if kind == "category"})
        table = pd.concat([keys, plain], axis=1)
        found: dict[str, Any] = {
            "rollouts": len(table),
            "groups": int(table["group_id"].nunique()),
            "with_advantage": int(table["advantage"].notna().sum()),
            "dropped": _without_advantage(curation.attempts),
        }
        hard = task_difficulty(curation.index.frame, curation.attempts.members)
        tables = {
            "advantages": pa.Table.from_pandas(table, preserve_index=False),
            DIFFICULTY: pa.Table.from_pandas(hard, preserve_index=False),
        }
        current = lake.put(ADVANTAGES, tables, digest, found)
    counts = current.counts
    ledger = Ledger(counts["rollouts"], counts["with_advantage"], counts["dropped"])
    path = lake.root / ADVANTAGES / current.digest
    status: Literal["made", "unchanged"] = "unchanged" if fresh else "made"
    return Made(ADVANTAGES, status, digest, current.digest, counts["with_advantage"], path, ledger, counts)


def _without_advantage(attempts: Attempts) -> dict[str, dict[str, int]]:
    """Rollouts without an advantage by stage and reason."""
    withheld = attempts.groups.loc[attempts.members & attempts.groups["reason"].notna(), ["reason"]]
    withheld = withheld.assign(stage=str(Stage.GROUPS))
    withheld.loc[withheld["reason"] == "mixed_graders", "stage"] = str(Stage.CONVERTIBLE)
    dropped: dict[str, dict[str, int]] = {}
    for table in (attempts.drops, withheld):
        counts = table.groupby(["stage", "reason"], observed=True).size().reset_index(name="n")
        for stage, reason, n in counts.itertuples(index=False):
            reasons = dropped.setdefault(str(stage), {})
            reasons[str(reason)] = reasons.get(str(reason), 0) + int(n)
    return {stage: dict(sorted(reasons.items())) for stage, reasons in sorted(dropped.items())}


def depth_classifier(curation: Curation, recipe: str | None = None) -> Made:
    """The classifier of a recipe's mix, trained again when what it learns from changes.

    Raises `FlywheelError`, and the one before stays, where it does not pass `depth.min_f1`.
    """
    lake, (name, depth) = curation.lake, classifier_of(curation.settings, recipe)
    digest = classifier_digest(depth)
    current = lake.whole(name)
    fresh = current is not None and current.inputs_digest == digest
    if current is None or not fresh:
        model = trained(depth)
        counts = dict(model.info) if current is None else {**model.info, "before": current.counts.get("held_out")}
        current = lake.put(name, {}, digest, counts, model.save)
    rows = current.counts["rows"]
    path = lake.root / name / current.digest
    status: Literal["made", "unchanged"] = "unchanged" if fresh else "made"
    return Made(name, status, digest, current.digest, rows, path, Ledger(rows, rows, {}), current.counts)
