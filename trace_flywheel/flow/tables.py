"""The two assets over all runs that are no datasets: group advantages and the depth classifiers, kept in the lake."""

from collections.abc import Iterator
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

ROWS = 1 << 14
"""Of the table of advantages, made and written at once."""
DIFFICULTY = "task_difficulty"
"""Table beside the advantages: pass@k of every task."""


def grouped_advantages(curation: Curation) -> Made:
    """The advantage of every attempt in its group, over all runs, before any filter; beside it what tasks are hard."""
    lake, digest = curation.lake, advantages_digest(curation)
    current = lake.whole(ADVANTAGES)
    fresh = current is not None and current.inputs_digest == digest
    if current is None or not fresh:
        groups = curation.attempts.groups
        found: dict[str, Any] = {
            "rollouts": len(groups),
            "groups": int(groups["group_id"].nunique()),
            "with_advantage": int(groups["advantage"].notna().sum()),
            "dropped": _without_advantage(curation.attempts),
        }
        hard = task_difficulty(curation.index.frame, curation.attempts.members)
        tables = {
            "advantages": advantages_of(curation.index.frame, groups),
            DIFFICULTY: [pa.Table.from_pandas(hard, preserve_index=False)],
        }
        current = lake.put(ADVANTAGES, tables, digest, found)
    counts = current.counts
    ledger = Ledger(counts["rollouts"], counts["with_advantage"], counts["dropped"])
    path = lake.root / ADVANTAGES / current.digest
    status: Literal["made", "unchanged"] = "unchanged" if fresh else "made"
    return Made(ADVANTAGES, status, digest, current.digest, counts["with_advantage"], path, ledger, counts)


def advantages_of(frame: pd.DataFrame, groups: pd.DataFrame, at_a_time: int = ROWS) -> Iterator[pa.Table]:
    """One row a rollout. What groups have in common is text in the table: of all rows at once 0.3 kB each."""
    text = {name: "str" for name, kind in groups.dtypes.items() if kind == "category"}
    keys, schema = frame[["run_id", "trace_id", "task_id", "reward"]], None
    for start in range(0, max(len(groups), 1), at_a_time):
        rows = slice(start, start + at_a_time)
        some = pd.concat([keys.iloc[rows], groups.iloc[rows].astype(text)], axis=1)
        made = pa.Table.from_pandas(some, schema, preserve_index=False)
        if schema is None:
            schema = made.schema
            at = schema.get_field_index("reason")
            if schema.field(at).type == pa.null() and groups["reason"].notna().any():
                schema = schema.set(at, pa.field("reason", pa.string()))
        yield made.cast(schema)


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
