"""The second movement: decisions over all runs, on the index alone.

Each kind of dataset is a paragraph of calls in the order of the stages.
"""

from typing import Any

import numpy as np
import pandas as pd

from trace_flywheel.curation import dedup
from trace_flywheel.curation.advantages import policy_ages, stale_policies
from trace_flywheel.curation.at_fault import group_evidence
from trace_flywheel.curation.convertible import accepted_ungraded, convertible
from trace_flywheel.curation.decisions import drops, records
from trace_flywheel.curation.difficulty import TASK, pass_rates
from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.curation.meaning import same_meaning
from trace_flywheel.curation.preference import build_pairs, unfit
from trace_flywheel.curation.quality import quality_drops
from trace_flywheel.curation.selection import task_cap, top_fraction
from trace_flywheel.curation.standing import Corpus
from trace_flywheel.flow.compared import MANY, Compared, compared_apart
from trace_flywheel.flow.corpora import Corpora
from trace_flywheel.flow.frame import Index
from trace_flywheel.flow.funnel import Attempts, Curated, Funnel, crossing_drops, entered, hold_out
from trace_flywheel.flow.meanings import Meanings
from trace_flywheel.records.fate import Stage
from trace_flywheel.settings import Dedup, Settings

ALARM_ROWS = 4
"""Rows of a task below which a share says nothing."""
COLLAPSED = 20
"""Tasks that are told by name."""


def sft(
    index: Index, common: Attempts, holdout: Holdout, corpora: Corpora, settings: Settings, meanings: Meanings
) -> Curated:
    """SFT rows: the best of each task, corrections and step-masked traces, without duplicates."""
    frame, ungraded, corpus = index.frame, settings.grading.ungraded, corpora.corpus
    funnel = entered(index, common)
    funnel.take(convertible(frame, funnel.alive, "sft", ungraded))
    warnings = list(hold_out(funnel, index, holdout))
    funnel.take(quality_drops(frame, funnel.alive, "sft"))
    rank = dedup.precedence(frame)
    funnel.take(dedup.exact_duplicates(frame, funnel.alive, rank))
    if corpus is not None:
        funnel.take(dedup.corpus_exact_duplicates(frame, funnel.alive, corpus))
    selected = top_fraction(frame, funnel.alive, settings.selection, settings.seed)
    funnel.take(selected.drops)
    before = funnel.alive.copy()
    near_duplicates(funnel, index, rank, corpus, settings.dedup)
    if (alike := settings.dedup.embedding_threshold) is not None:
        funnel.take(same_meaning(frame, funnel.alive.copy(), rank, meanings.of(index), alike, meanings.model))
    collapsed = _collapsed(frame, before, funnel.alive, settings.dedup.alarm_share)
    funnel.take(task_cap(frame, funnel.alive, settings.selection.max_per_task, settings.seed))
    funnel.take(crossing_drops(funnel, index, settings))
    marked = int((accepted_ungraded(frame, ungraded) & funnel.alive).sum())
    lowest = selected.thresholds.groupby("task_id")["threshold"].min()
    facts = {
        "thresholds": {str(task): float(value) for task, value in lowest.items()},
        "tied_share": round(selected.tied_share, 4),
        "ungraded": marked,
        "collapsed": {str(task): [int(of), int(lost)] for task, of, lost in collapsed[:COLLAPSED].itertuples()},
    }
    warnings += _alarm(collapsed, settings.dedup.alarm_share)
    warnings += [
        f"{n} lines of the corpus {name} are of no known shape." for name, n in sorted(corpora.skipped.items())
    ]
    if marked:
        warnings.append(f"{marked} rows were graded by nobody; their sources are set to `ungraded = accept`.")
    return Curated("sft", index, np.flatnonzero(funnel.alive), funnel.drops, facts=facts, warnings=tuple(warnings))


def near_duplicates(funnel: Funnel, index: Index, rank: np.ndarray, corpus: Corpus | None, chosen: Dedup) -> None:
    """Rows near a better one, then rows near the corpora. Their texts are read once: here where there are corpora or
    few rows, else by a process of its own, or by the tasks of a cluster."""
    before, threshold = funnel.alive.copy(), chosen.threshold
    if chosen.ray_address:
        from trace_flywheel.flow.near_ray import near_duplicates_on_ray

        funnel.take(near_duplicates_on_ray(index.frame, before, rank, index.columns, threshold, chosen.ray_address))
        rest = index.columns.spans(funnel.alive) if corpus is not None else None
    elif corpus is None and int(before.sum()) >= MANY:
        rows = np.flatnonzero(before)
        columns = index.columns.only(rows).pruned()
        found = compared_apart(Compared(columns, dedup.owners(index.frame)[rows], rank[rows], threshold))
        funnel.take(dedup.near_drops(index.frame, rows, *found, threshold))
        return
    else:
        spans = index.columns.spans(before)
        funnel.take(dedup.near_duplicates(index.frame, before, rank, *spans, threshold))
        left = np.flatnonzero(funnel.alive[before])
        rest = (spans[0].take(left), spans[1].take(left)) if corpus is not None else None
    if corpus is not None and rest is not None:
        funnel.take(dedup.corpus_near_duplicates(funnel.alive, *rest, corpus, threshold))


def _collapsed(frame: pd.DataFrame, before: np.ndarray, after: np.ndarray, share: float) -> pd.DataFrame:
    """Tasks that near-duplicate removal took most of (`of` rows, `lost`), worst first: their prompts may be one
    template."""
    tasks = frame.loc[before, "task_id"].value_counts()
    left = frame.loc[after, "task_id"].value_counts().reindex(tasks.index, fill_value=0)
    lost = pd.DataFrame({"of": tasks, "lost": tasks - left})
    lost = lost[(lost["of"] >= ALARM_ROWS) & (lost["lost"] > share * lost["of"])].sort_index()
    return lost.sort_values("lost", ascending=False, kind="stable")


def _alarm(collapsed: pd.DataFrame, share: float) -> list[str]:
    if collapsed.empty:
        return []
    worst = collapsed.iloc[0]
    return [
        f"{len(collapsed)} tasks lost more than {share:.0%} of their rows to near-duplicates, {worst.name} the most "
        f"({worst['lost']} of {worst['of']}): look whether a template makes different rows alike."
    ]


def pairs(index: Index, common: Attempts, holdout: Holdout, settings: Settings) -> Curated:
    """Preference pairs: from the whole group, before any duplicate is removed."""
    funnel = entered(index, common)
    funnel.take(convertible(index.frame, funnel.alive, "pair", settings.grading.ungraded))
    warnings = hold_out(funnel, index, holdout)
    # A cut-off failure, where it may be a rejected member, is judged with the pairs.
    failing = (index.frame["verdict"] == "fail").to_numpy(dtype=bool) & settings.pairs.errored_rejected
    funnel.take(quality_drops(index.frame, funnel.alive, "pair", failing))
    funnel.take(crossing_drops(funnel, index, settings))
    alive, read = funnel.alive.copy(), index.columns.messages
    built = build_pairs(index.frame, alive, common.members, read, settings.pairs, settings.seed)
    funnel.take(built.drops)
    used = np.union1d(built.table["chosen"].to_numpy(np.int64), built.table["rejected"].to_numpy(np.int64))
    if not np.array_equal(used, np.flatnonzero(funnel.alive)):
        raise AssertionError("stage pairs: a rollout is neither in a pair nor dropped")
    facts = {"pairs_built": built.built, "pair_candidates": built.candidates}
    return Curated("pair", index, used, funnel.drops, pairs=built, facts=facts, warnings=warnings)


def kto(index: Index, common: Attempts, holdout: Holdout, settings: Settings, paired: np.ndarray) -> Curated:
    """Unpaired answers: the graded rollouts that no preference pair uses, as long as both labels occur.

    What an attempt said counts once, and an answer that a pair holds already is not given again. `paired`: the rows
    that the pairs of the same rollouts and settings use.
    """
    frame = index.frame
    funnel = entered(index, common)
    funnel.take(convertible(frame, funnel.alive, "pair", settings.grading.ungraded))
    warnings = hold_out(funnel, index, holdout)
    funnel.take(quality_drops(frame, funnel.alive, "pair"))
    used = np.zeros(len(frame), dtype=bool)
    used[paired] = True
    # What is no example does not stand for one that says the same.
    rows = np.flatnonzero(funnel.alive & unfit(frame) & ~used)
    ended = [{"error": error} if isinstance(error, str) else {} for error in frame["error_category"].iloc[rows]]
    funnel.take(drops(Stage.PAIRS, rows, "errored_or_truncated", ended))
    rank = dedup.precedence(frame) + np.where(used, 0, len(frame))
    funnel.take(dedup.exact_duplicates(frame.assign(exact_hash=frame["content_hash"]), funnel.alive, rank))
    funnel.take(_all_of(funnel.alive & used, "used_in_pair", {}))
    passing = (frame["verdict"] == "pass").to_numpy(dtype=bool)
    funnel.take(crossing_drops(funnel, index, settings))
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
    funnel = entered(index, common)
    funnel.take(convertible(index.frame, funnel.alive, "rl", settings.grading.ungraded))
    warnings = hold_out(funnel, index, holdout)
    funnel.take(quality_drops(index.frame, funnel.alive, "rl"))
    reasons = common.groups["reason"]
    for stage in (Stage.CONVERTIBLE, Stage.GROUPS):
        mixed = (reasons == "mixed_graders").to_numpy(dtype=bool)
        here = reasons.notna().to_numpy(dtype=bool) & (mixed if stage is Stage.CONVERTIBLE else ~mixed) & funnel.alive
        rows = np.flatnonzero(here)
        by = settings.groups.by
        evidence = group_evidence(index.frame, common.members, common.groups, rows, common.unreadable, by)
        funnel.take(drops(stage, rows, reasons.iloc[rows].tolist(), evidence))
    funnel.take(crossing_drops(funnel, index, settings))
    funnel.take(stale_policies(index.frame, funnel.alive, settings.groups.max_policy_age))
    flat = int(common.groups["zero_spread"].to_numpy(dtype=bool)[funnel.alive].sum())
    kept = np.flatnonzero(funnel.alive)
    facts = {"zero_spread": flat}
    groups = common.groups.assign(policy_age=policy_ages(index.frame))
    return Curated("rl", index, kept, funnel.drops, groups=groups, facts=facts, warnings=warnings)


def prompts(index: Index, common: Attempts, holdout: Holdout, settings: Settings) -> Curated:
    """Tasks to practise on: one prompt of each that some comparable attempts passed and some did not."""
    frame = index.frame
    funnel = entered(index, common)
    funnel.take(convertible(frame, funnel.alive, "rl", settings.grading.ungraded))
    warnings = hold_out(funnel, index, holdout)
    funnel.take(quality_drops(frame, funnel.alive, "pair"))
    rates = pass_rates(frame, common.members)
    flat = (rates["passes"] == 0) | (rates["passes"] == rates["n"])
    rows = np.flatnonzero(flat.to_numpy(dtype=bool) & funnel.alive)
    funnel.take(drops(Stage.SELECTION, rows, "no_signal", records(rates, rows)))
    funnel.take(task_cap(frame.assign(has_correction=False), funnel.alive, 1, settings.seed, TASK))
    funnel.take(crossing_drops(funnel, index, settings))
    return Curated("prompt", index, np.flatnonzero(funnel.alive), funnel.drops, rates=rates, warnings=warnings)
