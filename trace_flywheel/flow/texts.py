"""The text of chosen rollouts, from the run partitions, with the grade that the index holds."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from trace_flywheel.flow.frame import Index
from trace_flywheel.flow.ingest_tasks import REDACTED
from trace_flywheel.flow.reading import Grade, Reading, changed, finite, read
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.rollout import Rollout


def texts(lake: Lake, index: Index, rows: np.ndarray) -> Iterator[tuple[int, Rollout]]:
    """(frame row, redacted rollout) of the given rows, part after part in the order of runs.

    Raises `LakeError` when a run was ingested anew since the index was read: its positions mean nothing then.
    """
    for reading in readings(lake, index, rows):
        yield from read(reading)


def readings(lake: Lake, index: Index, rows: np.ndarray) -> Iterator[Reading]:
    """The parts that hold the given rows, in the order of runs. Raises `LakeError` as `texts` does."""
    described = {s.run_id: s.facts["of"] for s in index.runs}
    parts, positions = (index.frame[name].to_numpy()[rows] for name in ("part", "position"))
    later = set(rows[index.frame["superseded"].iloc[rows].notna().to_numpy(dtype=bool)].tolist())
    codes, names = pd.factorize(index.frame["run_id"].iloc[rows], sort=True)
    order = np.lexsort((parts, codes))
    starts = np.flatnonzero(np.append(True, (np.diff(codes[order]) != 0) | (np.diff(parts[order]) != 0)))
    for stretch in np.split(order, starts[1:]) if len(order) else ():
        run, number = str(names[codes[stretch[0]]]), int(parts[stretch[0]])
        sidecar = lake.sidecar(REDACTED, run)
        if sidecar is None or sidecar.content_digest != described[run]:
            raise changed(run)
        path = lake.part_path(sidecar, sidecar.parts[number])
        by_position = dict(zip(positions[stretch].tolist(), rows[stretch].tolist(), strict=True))
        grades = {row: _grade(index.frame, row) for row in by_position.values() if row in later} if later else {}
        yield Reading(run, path, by_position, grades)


def _grade(frame: pd.DataFrame, row: int) -> Grade:
    verdict, grader, version = (frame[name].iat[row] for name in ("verdict", "grader", "grader_version"))
    return Grade(verdict, finite(frame["reward"].iat[row]), grader, version)
