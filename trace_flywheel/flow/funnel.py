"""What all datasets share on the way from the index to their rows: attempts, the funnel and the gates for all kinds.

A stage answers with a table of drops; the `Funnel` takes it only from rows that are still in, so at every stage what
entered is what was kept plus what was dropped. Statistics of groups are frozen before any filter.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import orjson
import pandas as pd

from trace_flywheel.curation.advantages import group_table
from trace_flywheel.curation.decisions import no_drops
from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.curation.preference import PairSet
from trace_flywheel.curation.same_rollout import conflicting_ids, moved, same_rollout
from trace_flywheel.curation.splits import crossing
from trace_flywheel.curation.withdrawal import withdrawn
from trace_flywheel.flow.frame import Index
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.grading import Withdrawal
from trace_flywheel.settings import Recipe, Settings

MOSTLY_HELD_OUT = 0.5
"""Share of held-out rollouts above which the collection itself is suspect."""
Kind = Literal["sft", "pair", "kto", "rl", "prompt"]


class Funnel:
    """Rows on their way: who is still in, and for those who are not the one drop that ended it."""

    def __init__(self, n: int) -> None:
        self.alive = np.ones(n, dtype=bool)
        self._taken: list[pd.DataFrame] = []

    def take(self, answer: pd.DataFrame) -> None:
        """Apply a stage's drops to the rows still in. Raises `AssertionError` when a stage drops a row twice."""
        rows = answer["row"].to_numpy(dtype=np.int64)
        still = self.alive[rows]
        mine = answer if still.all() else answer[still]
        rows = mine["row"].to_numpy(dtype=np.int64)
        before = int(self.alive.sum())
        self.alive[rows] = False
        if before != int(self.alive.sum()) + len(rows):
            raise AssertionError(f"stage {mine['stage'].iat[0]!s}: a row was dropped twice")
        self._taken.append(mine)

    @property
    def drops(self) -> pd.DataFrame:
        """All drops so far, stage by stage: putting a million of them in the order of rows would copy them."""
        return pd.concat(self._taken, ignore_index=True) if self._taken else no_drops()


@dataclass(frozen=True)
class Attempts:
    """Stages 1 and 2, shared by all datasets: which rollouts count, and their group's statistics."""

    drops: pd.DataFrame
    members: np.ndarray
    groups: pd.DataFrame
    unreadable: tuple[Drop, ...] = ()
    """Attempts that their groups had to do without."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Curated:
    """What a kind of dataset takes from the index: rows kept (of pairs: the table), every drop, facts for people."""

    kind: Kind
    index: Index
    kept: np.ndarray
    drops: pd.DataFrame
    pairs: PairSet | None = None
    groups: pd.DataFrame | None = None
    rates: pd.DataFrame | None = None
    """Of prompts: `n` and `passes` of each row's task."""
    facts: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def attempts(
    index: Index, settings: Settings, withdrawals: Sequence[Withdrawal] = (), gone: Sequence[str] = ()
) -> Attempts:
    """Each attempt once, withdrawn and conflicting ones never; group statistics over what is left.

    `gone` are the runs whose folders are not there any more: what of them stands in another run was moved there.
    """
    funnel = Funnel(len(index.frame))
    funnel.take(withdrawn(index.frame, withdrawals))
    conflicting = conflicting_ids(index.frame)
    conflicting = conflicting[funnel.alive[conflicting["row"].to_numpy(dtype=np.int64)]]
    funnel.take(conflicting)
    again = moved(index.frame, funnel.alive, gone)
    funnel.take(again)
    funnel.take(same_rollout(index.frame, funnel.alive))
    names = ["run_id", "trace_id", "task_id", "agent", "model", "job"]
    unreadable = index.frame.iloc[conflicting["row"].to_numpy(dtype=np.int64)][names].astype(object)
    unreadable = unreadable.where(unreadable.notna(), None)
    away = tuple(d for d in index.lost if not _gone(d, withdrawals)) + tuple(
        Drop(Stage.READ, "conflicting_trace_id", **dict(zip(names, row, strict=True)))
        for row in unreadable.itertuples(index=False)
    )
    lost = pd.DataFrame([{n: getattr(d, n) for n in names[2:]} for d in away], columns=names[2:], dtype=object)
    groups = group_table(index.frame, funnel.alive, settings.groups, lost)
    return Attempts(funnel.drops, funnel.alive.copy(), groups, away, _told(index.frame, again))


def _told(frame: pd.DataFrame, again: pd.DataFrame) -> tuple[str, ...]:
    """A warning where a folder was moved: its old run holds rollouts that are counted in the new one."""
    if again.empty:
        return ()
    first = again["row"].tolist()[0]
    kept = orjson.loads(str(again["evidence"].iat[0]))["kept_run_id"]
    return (
        f"{len(again)} rollouts of runs whose folder is gone stand again in another run and count once there; the "
        f"first is {frame['trace_id'].iat[first]} of {frame['run_id'].iat[first]}, now {kept}.",
    )


def _gone(drop: Drop, withdrawals: Sequence[Withdrawal]) -> bool:
    """Whether a rollout that could not be read was withdrawn with its run or by its id, or was erased."""
    return drop.reason == "purged" or any(
        w.grader is None and w.covers(drop.run_id or "", drop.trace_id or "", None, None) for w in withdrawals
    )


def of_recipe(index: Index, common: Attempts, recipe: Recipe) -> tuple[Index, Attempts]:
    """The part of the index that a recipe's filters let in.

    Advantages stay those of all runs; pairs and pass rates are those of the rollouts that take part.
    """
    mask = np.ones(len(index.frame), dtype=bool)
    columns = {"source_format": recipe.sources, "agent": recipe.agents, "task_id": recipe.tasks}
    for column, wanted in {**columns, "policy_version": recipe.policies}.items():
        if wanted:
            mask &= index.frame[column].isin(list(wanted)).to_numpy(dtype=bool)
    number = np.cumsum(mask) - 1
    inside = common.drops[mask[common.drops["row"].to_numpy(dtype=np.int64)]]
    moved = inside.assign(row=number[inside["row"].to_numpy(dtype=np.int64)])
    groups = common.groups.iloc[np.flatnonzero(mask)].reset_index(drop=True)
    return index.only(mask), Attempts(moved.reset_index(drop=True), common.members[mask], groups, common.unreadable)


def entered(index: Index, common: Attempts) -> Funnel:
    funnel = Funnel(len(index.frame))
    funnel.take(common.drops)
    return funnel


def crossing_drops(funnel: Funnel, index: Index, settings: Settings) -> pd.DataFrame:
    if not settings.splits.eval and not settings.splits.held_out:
        return no_drops()
    prompt, _ = index.columns.spans(funnel.alive)
    return crossing(index.frame, funnel.alive, prompt, settings.splits, settings.seed, settings.dedup.threshold)


def told_of_crossing(curated: Curated) -> tuple[str, ...]:
    """A warning where the split cost more rows than it left: a template may tie all prompts into one component."""
    crossed = int((curated.drops["stage"] == str(Stage.SPLIT)).sum())
    if crossed <= len(curated.kept):
        return ()
    return (
        f"{crossed} rollouts leave their split because their prompts are near ones of another, {len(curated.kept)} "
        "stay: look whether a template makes different tasks alike.",
    )


def hold_out(funnel: Funnel, index: Index, holdout: Holdout) -> tuple[str, ...]:
    """Goldens by id, then by what the index found of their text. A warning where that is most of what there is."""
    entered = int(funnel.alive.sum())
    funnel.take(holdout.by_id(index.frame))
    funnel.take(holdout.near(index.frame, funnel.alive))
    held = entered - int(funnel.alive.sum())
    if held <= MOSTLY_HELD_OUT * entered:
        return ()
    return (
        f"{held} of {entered} rollouts are held out as goldens: these runs seem to be the eval set itself. "
        "Collect runs of other tasks, or correct the golden files.",
    )
