"""Grades from files joined to the index: by trace and run, never by position.

A verdict stands in place of the rollout's whole grade (verdict, reward, scale, grader, version), because half of one
grade and half of another is nobody's; the grade before goes to the column `superseded` as JSON. Of several verdicts for
one rollout the last line counts, so a file that is only appended to is a history. A verdict mends the failure of a
verifier; a failure of the infrastructure stays one.

Scores of judges, 0..1, become `judge_score`: the mean over (judge, name), the last line of each. `judge` names them:
a pair's delta needs both members judged by the same.

An entry that names no run and whose trace stands in several is ambiguous: it is counted as unmatched, not spread.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec
import numpy as np
import pandas as pd

from trace_flywheel.records.canonical import canonical_json
from trace_flywheel.records.grading import JudgeEntry, VerdictEntry

GRADE = ("verdict", "reward", "grader", "grader_version")


class Regraded(msgspec.Struct, frozen=True):
    """The frame with its grades joined, and the entries that found no rollout (`file:line`)."""

    frame: pd.DataFrame
    matched: int
    """Rollouts that an entry was about."""
    unmatched: tuple[str, ...]


def join_verdicts(frame: pd.DataFrame, entries: Sequence[VerdictEntry]) -> Regraded:
    """`frame` with `superseded` (JSON text or None) and, where a verdict names a rollout, its grade in place."""
    given: dict[int, VerdictEntry] = {}
    unmatched: list[str] = []
    for entry, rows in _matched(frame, entries):
        given |= dict.fromkeys(rows, entry)
        if not rows:
            unmatched.append(f"{entry.path}:{entry.line}")
    at = np.array(sorted(given), dtype=np.int64)
    before = frame.iloc[at][[*GRADE, "verdict_text", "reward_text"]].to_dict("records")
    joined = frame.assign(superseded=pd.Series([None] * len(frame), dtype=object))
    for name, values in _columns([given[row] for row in at.tolist()], before).items():
        column = _objects(joined[name])
        column[at] = values
        joined[name] = pd.Series(column, dtype=object)  # text columns that hold None, not NaN
    joined = joined.astype({"reward": "float64", "reward_low": "float64", "reward_high": "float64"})
    verifier = np.zeros(len(frame), dtype=bool)
    verifier[at] = (frame["error_by"].iloc[at] == "verifier").to_numpy(dtype=bool)
    for name in ("error_by", "error_category"):
        column = _objects(joined[name])
        column[verifier] = None
        joined[name] = pd.Series(column, dtype=object)
    return Regraded(joined, len(given), tuple(unmatched))


def _objects(column: pd.Series) -> np.ndarray:
    """A copy that holds any object; texts that rows share stand in it once."""
    if not isinstance(column.dtype, pd.StringDtype):
        return column.astype(object).to_numpy(copy=True)
    codes, texts = pd.factorize(column)
    objects: np.ndarray = np.array([*texts.tolist(), np.nan], dtype=object)[codes]  # -1, a missing one, is the last
    return objects


def join_scores(frame: pd.DataFrame, entries: Sequence[JudgeEntry]) -> Regraded:
    """`frame` with `judge` (who scored, None where nobody or the row itself says) and `judge_score` in place."""
    scores: dict[int, dict[str, float]] = {}
    unmatched: list[str] = []
    for entry, rows in _matched(frame, entries):
        for row in rows:
            scores.setdefault(row, {})[f"{entry.judge}/{entry.name}"] = entry.value
        if not rows:
            unmatched.append(f"{entry.path}:{entry.line}")
    value = frame["judge_score"].to_numpy(dtype=np.float64, na_value=np.nan).copy()
    judge = np.full(len(frame), None, dtype=object)
    for row, found in scores.items():
        value[row] = math.fsum(found.values()) / len(found)
        judge[row] = "+".join(sorted(found))
    return Regraded(
        frame.assign(judge_score=value, judge=pd.Series(judge, dtype=object)), len(scores), tuple(unmatched)
    )


def _columns(entries: Sequence[VerdictEntry], before: Sequence[dict[Any, Any]]) -> dict[str, list[Any]]:
    none = [None] * len(entries)
    return {
        "verdict": [entry.verdict for entry in entries],
        "reward": [entry.reward for entry in entries],
        "grader": [entry.grader for entry in entries],
        "grader_version": [entry.grader_version for entry in entries],
        "verdict_text": none,
        "reward_text": none,
        "reward_low": none,
        "reward_high": none,
        "superseded": [_earlier(entry, grade) for entry, grade in zip(entries, before, strict=True)],
    }


def _earlier(entry: VerdictEntry, grade: dict[Any, Any]) -> str:
    known = {name: None if pd.isna(value) else value for name, value in grade.items()}
    return canonical_json({**known, "by": f"{entry.path}:{entry.line}"}).decode()


def _matched(frame: pd.DataFrame, entries: Iterable[Any]) -> list[tuple[Any, list[int]]]:
    """Every entry with the rows that it is about."""
    entries = list(entries)
    part = frame.loc[frame["trace_id"].isin(sorted({e.trace_id for e in entries})), ["trace_id", "run_id"]]
    runs: dict[str, dict[str, list[int]]] = {}
    for row, trace, run in part.itertuples():
        runs.setdefault(trace, {}).setdefault(run, []).append(row)
    attempts = dict(zip(part.index.tolist(), frame["attempt_hash"].loc[part.index].tolist(), strict=True))
    return [(entry, _rows_of(entry.run_id, runs.get(entry.trace_id, {}), attempts)) for entry in entries]


def _rows_of(run_id: str | None, runs: dict[str, list[int]], attempts: dict[int, str]) -> list[int]:
    """The rows of the run that is named; without a name those of the only run, or of copies of one attempt."""
    if run_id in runs:
        return runs[run_id]
    named = [run for run in sorted(runs) if run_id is None or run_id == unquote(run.rsplit("/", 1)[-1])]
    rows = [row for run in named for row in runs[run]]
    return rows if len(named) == 1 or len({attempts[row] for row in rows}) == 1 else []
