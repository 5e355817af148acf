"""The second movement: decisions over all runs, on the index alone.

Each kind of dataset is a paragraph of calls in the order of the stages. A stage answers with a table of drops; the
`Funnel` takes it only from rows that are still in, so at every stage what entered is what was kept plus what was
dropped. Statistics of groups are frozen before any filter.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import orjson
import pandas as pd

from trace_flywheel.curation import dedup
from trace_flywheel.curation.advantages import group_table, stale_policies
from trace_flywheel.curation.at_fault import group_evidence
from trace_flywheel.curation.convertible import accepted_ungraded, convertible
from trace_flywheel.curation.decisions import COLUMNS, drops, no_drops
from trace_flywheel.curation.difficulty import pass_rates
from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.curation.preference import PairSet, build_pairs, unfit
from trace_flywheel.curation.quality import quality_drops
from trace_flywheel.curation.same_rollout import conflicting_ids, same_rollout
from trace_flywheel.curation.selection import task_cap, top_fraction
from trace_flywheel.curation.splits import crossing
from trace_flywheel.curation.withdrawal import withdrawn
from trace_flywheel.flow.corpora import Corpora
from trace_flywheel.flow.frame import Index
from trace_flywheel.records.canonical import canonical_json
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.grading import Withdrawal
from trace_flywheel.settings import Recipe, Settings

Kind = Literal["sft", "pair", "kto", "rl", "prompt"]


MOSTLY_HELD_OUT = 0.5
"""Share of held-out rollouts above which the collection itself is suspect."""


ALARM_ROWS = 4
"""Rows of a task below which a share says nothing."""


class Funnel:
    """Rows on their way: who is still in, and for those who are not the one drop that ended it."""

    def __init__(self, n: int) -> None:
        self.alive = np.ones(n, dtype=bool)
        self._taken: list[pd.DataFrame] = []

    def take(self, answer: pd.DataFrame) -> None:
        """Apply a stage's drops to the rows still in. Raises `AssertionError` when a stage drops a row twice."""
        rows = answer["row"].to_numpy(dtype=np.int64)
        mine = answer[self.alive[rows]]
        rows = mine["row"].to_numpy(dtype=np.int64)
        before = int(self.alive.sum())
        self.alive[rows] = False
        if before != int(self.alive.sum()) + len(rows):
            raise AssertionError(f"stage {mine['stage'].iat[0]}: a row was dropped twice")
        self._taken.append(mine)

    @property
    def drops(self) -> pd.DataFrame:
        """All drops so far, in the order of rows."""
        if not self._taken:
            return no_drops()
        return pd.concat(self._taken, ignore_index=True).sort_values("row", ignore_index=True)[list(COLUMNS)]


@dataclass(frozen=True)
class Attempts:
    """Stages 1 and 2, shared by all datasets: which rollouts count, and their group's statistics."""

    drops: pd.DataFrame
    members: np.ndarray
    groups: pd.DataFrame
    unreadable: tuple[Drop, ...] = ()
    """Attempts that their groups had to do without."""


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


def attempts(index: Index, settings: Settings, withdrawals: Sequence[Withdrawal] = ()) -> Attempts:
    """Each attempt once, withdrawn and conflicting ones never; group statistics over what is left."""
    funnel = Funnel(len(index.frame))
    funnel.take(withdrawn(index.frame, withdrawals))
    conflicting = conflicting_ids(index.frame)
    conflicting = conflicting[funnel.alive[conflicting["row"].to_numpy(dtype=np.int64)]]
    funnel.take(conflicting)
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
    return Attempts(funnel.drops, funnel.alive.copy(), groups, away)


def _gone(drop: Drop, withdrawals: Sequence[Withdrawal]) -> bool:
    """Whether a rollout that could not be read was withdrawn with its run or by its id, or was erased."""
    return drop.reason == "purged" or any(
        w.grader is None and w.covers(drop.run_id or "", drop.trace_id or "", None, None) for w in withdrawals
    )


def of_recipe(index: Index, common: Attempts, recipe: Recipe) -> tuple[Index, Attempts]:
    """The part of the index that a recipe's filters let in; statistics stay those of all runs."""
    mask = np.ones(len(index.frame), dtype=bool)
    columns = {"source_format": recipe.sources, "agent": recipe.agents, "task_id": recipe.tasks}
    for column, wanted in {**columns, "policy_version": recipe.policies}.items():
        if wanted:
            mask &= index.frame[column].isin(list(wanted)).to_numpy(dtype=bool)
    number = np.cumsum(mask) - 1
    inside = common.drops[mask[common.drops["row"].to_numpy(dtype=np.int64)]]
    moved = inside.assign(row=number[inside["row"].to_numpy(dtype=np.int64)])
    groups = common.groups.iloc[np.flatnonzero(mask)].reset_index(drop=True)
    return index.only(mask), Attempts(moved.reset_index(drop=True), common.members[mask], groups)


def sft(index: Index, common: Attempts, holdout: Holdout, corpora: Corpora, settings: Settings) -> Curated:
    """SFT rows: the best of each task, corrections and step-masked traces, without duplicates."""
    frame, ungraded, corpus = index.frame, settings.grading.ungraded, corpora.corpus
    funnel = _entered(index, common)
    funnel.take(convertible(frame, funnel.alive, "sft", ungraded))
    warnings = list(_hold_out(funnel, index, holdout))
    funnel.take(quality_drops(frame, funnel.alive, "sft"))
    rank = dedup.precedence(frame)
    funnel.take(dedup.exact_duplicates(frame, funnel.alive, rank))
    if corpus is not None:
        funnel.take(dedup.corpus_exact_duplicates(frame, funnel.alive, corpus))
    selected = top_fraction(frame, funnel.alive, settings.selection, settings.seed)
    funnel.take(selected.drops)
    spans, threshold = (index.prompt, index.supervised), settings.dedup.threshold
    before = funnel.alive.copy()
    funnel.take(dedup.near_duplicates(frame, funnel.alive, rank, *spans, threshold))
    if corpus is not None:
        funnel.take(dedup.corpus_near_duplicates(frame, funnel.alive, *spans, corpus, threshold))
    warnings += _templates(frame, before, funnel.alive, settings.dedup.alarm_share)
    funnel.take(task_cap(frame, funnel.alive, settings.selection.max_per_task, settings.seed))
    funnel.take(_crossing(funnel, index, settings))
    marked = int((accepted_ungraded(frame, ungraded) & funnel.alive).sum())
    lowest = selected.thresholds.groupby("task_id")["threshold"].min()
    facts = {
        "thresholds": {str(task): float(value) for task, value in lowest.items()},
        "tied_share": round(selected.tied_share, 4),
        "ungraded": marked,
    }
    warnings += [
        f"{n} lines of the corpus {name} are of no known shape." for name, n in sorted(corpora.skipped.items())
    ]
    if marked:
        warnings.append(f"{marked} rows were graded by nobody; their sources are set to `ungraded = accept`.")
    return Curated("sft", index, np.flatnonzero(funnel.alive), funnel.drops, facts=facts, warnings=tuple(warnings))


def _templates(frame: pd.DataFrame, before: np.ndarray, after: np.ndarray, share: float) -> list[str]:
    """A warning where near-duplicate removal took most of a task: its prompts may be one template."""
    tasks = frame.loc[before, "task_id"].value_counts()
    left = frame.loc[after, "task_id"].value_counts().reindex(tasks.index, fill_value=0)
    lost = pd.DataFrame({"of": tasks, "lost": tasks - left})
    lost = lost[(lost["of"] >= ALARM_ROWS) & (lost["lost"] > share * lost["of"])].sort_index()
    if lost.empty:
        return []
    worst = lost.sort_values("lost", ascending=False, kind="stable").iloc[0]
    return [
        f"{len(lost)} tasks lost more than {share:.0%} of their rows to near-duplicates, {worst.name} the most "
        f"({worst['lost']} of {worst['of']}): look whether a template makes different rows alike."
    ]


def pairs(index: Index, common: Attempts, holdout: Holdout, settings: Settings) -> Curated:
    """Preference pairs: from the whole group, before any duplicate is removed."""
    funnel = _entered(index, common)
    funnel.take(convertible(index.frame, funnel.alive, "pair", settings.grading.ungraded))
    warnings = _hold_out(funnel, index, holdout)
    funnel.take(quality_drops(index.frame, funnel.alive, "pair"))
    funnel.take(_crossing(funnel, index, settings))
    built = build_pairs(
        index.frame, funnel.alive.copy(), common.members, index.hashes, index.norms, settings.pairs, settings.seed
    )
    funnel.take(built.drops)
    used = np.union1d(built.table["chosen"].to_numpy(np.int64), built.table["rejected"].to_numpy(np.int64))
    if not np.array_equal(used, np.flatnonzero(funnel.alive)):
        raise AssertionError("stage pairs: a rollout is neither in a pair nor dropped")
    facts = {"pairs_built": built.built}
    return Curated("pair", index, used, funnel.drops, pairs=built, facts=facts, warnings=warnings)


def kto(index: Index, common: Attempts, holdout: Holdout, settings: Settings) -> Curated:
    """Unpaired answers: the graded rollouts that no preference pair uses, as long as both labels occur.

    What an attempt said counts once, and an answer that a pair holds already is not given again.
    """
    frame = index.frame
    funnel = _entered(index, common)
    funnel.take(convertible(frame, funnel.alive, "pair", settings.grading.ungraded))
    warnings = _hold_out(funnel, index, holdout)
    funnel.take(quality_drops(frame, funnel.alive, "pair"))
    used = np.zeros(len(frame), dtype=bool)
    used[pairs(index, common, holdout, settings).kept] = True
    rank = dedup.precedence(frame) + np.where(used, 0, len(frame))
    funnel.take(dedup.exact_duplicates(frame.assign(exact_hash=frame["content_hash"]), funnel.alive, rank))
    funnel.take(_all_of(funnel.alive & used, "used_in_pair", {}))
    passing = (frame["verdict"] == "pass").to_numpy(dtype=bool)
    rows = np.flatnonzero(funnel.alive & unfit(frame))
    ended = [{"error": error} if isinstance(error, str) else {} for error in frame["error_category"].iloc[rows]]
    funnel.take(drops(Stage.PAIRS, rows, "errored_or_truncated", ended))
    funnel.take(_crossing(funnel, index, settings))
    labels = {"passing": int((funnel.alive & passing).sum()), "failing": int((funnel.alive & ~passing).sum())}
    if not all(labels.values()):
        funnel.take(_all_of(funnel.alive, "no_contrast", labels))
    kept = np.flatnonzero(funnel.alive)
    return Curated("kto", index, kept, funnel.drops, facts={"labels": labels}, warnings=warnings)


def _all_of(mask: np.ndarray, reason: str, evidence: dict[str, Any]) -> pd.DataFrame:
    rows = np.flatnonzero(mask)
    return drops(Stage.PAIRS, rows, reason, [evidence] * len(rows))


def rl(index: Index, common: Attempts, holdout: Holdout, settings: Settings) -> Curated:
    """RL rollouts: whatever has an advantage; zero spread is a flag, not a reason to go."""
    funnel = _entered(index, common)
    funnel.take(convertible(index.frame, funnel.alive, "rl", settings.grading.ungraded))
    warnings = _hold_out(funnel, index, holdout)
    funnel.take(quality_drops(index.frame, funnel.alive, "rl"))
    reasons = common.groups["reason"]
    for stage in (Stage.CONVERTIBLE, Stage.GROUPS):
        mixed = (reasons == "mixed_graders").to_numpy(dtype=bool)
        here = reasons.notna().to_numpy(dtype=bool) & (mixed if stage is Stage.CONVERTIBLE else ~mixed) & funnel.alive
        rows = np.flatnonzero(here)
        by = settings.groups.by
        evidence = group_evidence(index.frame, common.members, common.groups, rows, common.unreadable, by)
        funnel.take(drops(stage, rows, reasons.iloc[rows].tolist(), evidence))
    funnel.take(_crossing(funnel, index, settings))
    funnel.take(stale_policies(index.frame, funnel.alive, settings.groups.max_policy_age))
    flat = int(common.groups["zero_spread"].to_numpy(dtype=bool)[funnel.alive].sum())
    kept = np.flatnonzero(funnel.alive)
    facts = {"zero_spread": flat}
    return Curated("rl", index, kept, funnel.drops, groups=common.groups, facts=facts, warnings=warnings)


def prompts(index: Index, common: Attempts, holdout: Holdout, settings: Settings) -> Curated:
    """Tasks to practise on: one prompt of each that some comparable attempts passed and some did not."""
    frame = index.frame
    funnel = _entered(index, common)
    funnel.take(convertible(frame, funnel.alive, "rl", settings.grading.ungraded))
    warnings = _hold_out(funnel, index, holdout)
    funnel.take(quality_drops(frame, funnel.alive, "pair"))
    rates = pass_rates(frame, common.members)
    flat = (rates["passes"] == 0) | (rates["passes"] == rates["n"])
    rows = np.flatnonzero(flat.to_numpy(dtype=bool) & funnel.alive)
    evidence = [{str(k): v for k, v in rate.items()} for rate in rates.iloc[rows].to_dict("records")]
    funnel.take(drops(Stage.SELECTION, rows, "no_signal", evidence))
    funnel.take(task_cap(frame.assign(has_correction=False), funnel.alive, 1, settings.seed))
    funnel.take(_crossing(funnel, index, settings))
    return Curated("prompt", index, np.flatnonzero(funnel.alive), funnel.drops, rates=rates, warnings=warnings)


def _entered(index: Index, common: Attempts) -> Funnel:
    funnel = Funnel(len(index.frame))
    funnel.take(common.drops)
    return funnel


def _crossing(funnel: Funnel, index: Index, settings: Settings) -> pd.DataFrame:
    threshold = settings.dedup.threshold
    return crossing(index.frame, funnel.alive, index.prompt, settings.splits, settings.seed, threshold)


def _hold_out(funnel: Funnel, index: Index, holdout: Holdout) -> tuple[str, ...]:
    """Goldens by id, then by the evidence that the index carries. A warning where that is most of what there is."""
    entered = int(funnel.alive.sum())
    funnel.take(holdout.by_id(index.frame))
    hits = index.frame["golden_hits"]
    rows = np.flatnonzero(hits.notna().to_numpy(dtype=bool) & funnel.alive)
    near = drops(Stage.GOLDEN, rows, "golden_near_duplicate", [{}] * len(rows))
    funnel.take(near.assign(evidence=hits.iloc[rows].to_numpy()))
    held = entered - int(funnel.alive.sum())
    if held <= MOSTLY_HELD_OUT * entered:
        return ()
    return (
        f"{held} of {entered} rollouts are held out as goldens: these runs seem to be the eval set itself. "
        "Collect runs of other tasks, or correct the golden files.",
    )


def fates(curated: Curated, row_ids: dict[int, list[str]], late: dict[int, Drop]) -> list[dict[str, Any]]:
    """The fate of every rollout that entered.

    `row_ids`: by frame row the published rows that use it. `late`: kept rows whose last row publication dropped.
    The grade that a later verdict took the place of is evidence, kept or dropped.
    Raises `AssertionError` when a rollout has no fate or two.
    """
    frame = curated.index.frame
    names = zip(frame["run_id"].tolist(), frame["trace_id"].tolist(), frame["task_id"].tolist(), strict=True)
    table: list[dict[str, Any]] = [
        {"run_id": run, "trace_id": trace, "task_id": task, "kept": None} for run, trace, task in names
    ]
    for row, stage, reason, evidence in curated.drops[list(COLUMNS)].itertuples(index=False):
        table[row] |= _dropped(str(stage), reason, evidence)
    for row in curated.kept.tolist():
        if table[row]["kept"] is not None:
            raise AssertionError(f"{table[row]['trace_id']} is kept and dropped")
        if ids := row_ids.get(row):
            table[row] |= {"kept": True, "row_ids": sorted(ids)}
        else:
            drop = late[row]
            table[row] |= _dropped(str(drop.stage), drop.reason, canonical_json(drop.evidence).decode())
    for row in np.flatnonzero(frame["superseded"].notna().to_numpy(dtype=bool)).tolist():
        earlier = {"superseded": orjson.loads(str(frame["superseded"].iat[row]))}
        evidence = orjson.loads(table[row].get("evidence") or "{}")
        table[row]["evidence"] = canonical_json({**evidence, **earlier}).decode()
    if any(fate["kept"] is None for fate in table):
        raise AssertionError("a rollout that entered is neither kept nor dropped")
    return table + [_lost(drop) for drop in curated.index.lost]


def _dropped(stage: str, reason: str, evidence: str) -> dict[str, Any]:
    return {"kept": False, "row_ids": [], "stage": stage, "reason": reason, "evidence": evidence}


def _lost(drop: Drop) -> dict[str, Any]:
    evidence = dict(drop.evidence) | ({"path": drop.path} if drop.path else {})
    name = {"run_id": drop.run_id, "trace_id": drop.trace_id, "task_id": drop.task_id}
    return name | _dropped(drop.stage.value, drop.reason, canonical_json(evidence).decode())


def needs_grading(curated: Curated) -> list[dict[str, Any]]:
    """What lacks a verdict or a reward, to be graded and read again: run, trace, reason, path; sorted, each once."""
    wanted = curated.drops["reason"].isin(["no_verdict", "no_reward", "non_finite_reward"])
    frame = curated.index.frame
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row, reason in curated.drops.loc[wanted, ["row", "reason"]].itertuples(index=False):
        run, trace, path = (str(frame[n].iat[row]) for n in ("run_id", "trace_id", "source_path"))
        found.setdefault((run, trace), {"run_id": run, "trace_id": trace, "reason": reason, "path": path})
    return [found[key] for key in sorted(found)]
