"""The text of chosen rollouts, from the run partitions, with the grade that the index holds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from trace_flywheel.flow.frame import Index
from trace_flywheel.flow.ingest_tasks import REDACTED
from trace_flywheel.lake.parts import read_rollouts
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.rollout import Rollout


class Grade(NamedTuple):
    """A grade that took the place of a rollout's own."""

    verdict: Any
    reward: float | None
    grader: Any
    version: Any


class Reading(NamedTuple):
    """Rollouts to be read from one part: what another process needs to know to do it."""

    run_id: str
    path: Path
    rows: dict[int, int]
    """Frame row by position."""
    grades: dict[int, Grade]
    """By frame row, of those with a later verdict."""


def texts(lake: Lake, index: Index, rows: np.ndarray) -> Iterator[tuple[int, Rollout]]:
    """(frame row, redacted rollout) of the given rows, part after part in the order of runs.

    Raises `LakeError` when a run was ingested anew since the index was read: its positions mean nothing then.
    """
    for reading in readings(lake, index, rows):
        yield from read(reading)


def readings(lake: Lake, index: Index, rows: np.ndarray) -> Iterator[Reading]:
    """The parts that hold the given rows, in the order of runs. Raises `LakeError` as `texts` does."""
    described = {s.run_id: s.facts["of"] for s in index.runs}
    places = index.frame.iloc[rows][["run_id", "part", "position"]].assign(row=rows)
    later = set(rows[index.frame["superseded"].iloc[rows].notna().to_numpy(dtype=bool)].tolist())
    for (run, number), group in places.groupby(["run_id", "part"], sort=True):
        sidecar = lake.sidecar(REDACTED, str(run))
        if sidecar is None or sidecar.content_digest != described[str(run)]:
            raise _changed(str(run))
        path = lake.part_path(sidecar, sidecar.parts[int(str(number))])
        by_position = dict(zip(group["position"].tolist(), group["row"].tolist(), strict=True))
        grades = {row: _grade(index.frame, row) for row in by_position.values() if row in later}
        yield Reading(str(run), path, by_position, grades)


def read(reading: Reading) -> Iterator[tuple[int, Rollout]]:
    """(frame row, rollout) in the order of the part."""
    try:
        for position, rollout in read_rollouts(reading.path, frozenset(reading.rows), exchanges=False):
            row = reading.rows[position]
            yield row, _regraded(rollout, reading.grades[row]) if row in reading.grades else rollout
    except FileNotFoundError:
        raise _changed(reading.run_id) from None


def _changed(run: str) -> LakeError:
    return LakeError(f"{run}: changed while a dataset was made; run `flywheel refresh` again")


def _grade(frame: pd.DataFrame, row: int) -> Grade:
    verdict, grader, version = (frame[name].iat[row] for name in ("verdict", "grader", "grader_version"))
    return Grade(verdict, finite(frame["reward"].iat[row]), grader, version)


def _regraded(rollout: Rollout, grade: Grade) -> Rollout:
    """The rollout with the grade that the index holds: a later verdict took the place of its own."""
    return msgspec.structs.replace(
        rollout, verdict=grade.verdict, reward=grade.reward, grader=grade.grader, grader_version=grade.version
    )


def finite(value: Any) -> float | None:
    """A number of a frame; None for NaN and infinities."""
    return float(value) if np.isfinite(value) else None
