"""Chosen rollouts read from one part, wherever that is done."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from trace_flywheel.lake.parts import read_rollouts
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.records.rollout import Rollout

FIELDS = frozenset(
    {
        "run_id",
        "trace_id",
        "task_id",
        "suite",
        "verdict",
        "grader",
        "grader_version",
        "policy_version",
        "reward",
        "messages",
        "tools",
        "step_verdicts",
        "correction",
        "redactions",
        "metadata",
    }
)
"""Of a rollout, what rows and their provenance are made of: less than half of its columns."""


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


def read(reading: Reading) -> Iterator[tuple[int, Rollout]]:
    """(frame row, rollout) in the order of the part, with the fields that rows are made of."""
    try:
        for position, rollout in read_rollouts(reading.path, frozenset(reading.rows), fields=FIELDS):
            row = reading.rows[position]
            yield row, _regraded(rollout, reading.grades[row]) if row in reading.grades else rollout
    except FileNotFoundError:
        raise changed(reading.run_id) from None


def changed(run: str) -> LakeError:
    return LakeError(f"{run}: changed while a dataset was made; run `flywheel refresh` again")


def _regraded(rollout: Rollout, grade: Grade) -> Rollout:
    """The rollout with the grade that the index holds: a later verdict took the place of its own."""
    return msgspec.structs.replace(
        rollout, verdict=grade.verdict, reward=grade.reward, grader=grade.grader, grader_version=grade.version
    )


def finite(value: Any) -> float | None:
    """A number of a frame; None for NaN and infinities."""
    return float(value) if np.isfinite(value) else None
