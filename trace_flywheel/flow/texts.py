"""The text of chosen rollouts, from the run partitions, with the grade that the index holds."""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from trace_flywheel.flow.frame import Index
from trace_flywheel.flow.ingest_tasks import REDACTED
from trace_flywheel.lake.parts import read_rollouts
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.rollout import Rollout


def texts(lake: Lake, index: Index, rows: np.ndarray) -> Iterator[tuple[int, Rollout]]:
    """(frame row, redacted rollout) of the given rows, part after part in the order of runs.

    Raises `LakeError` when a run was ingested anew since the index was read: its positions mean nothing then.
    """
    described = {s.run_id: s.facts["of"] for s in index.runs}
    places = index.frame.iloc[rows][["run_id", "part", "position"]].assign(row=rows)
    later = set(rows[index.frame["superseded"].iloc[rows].notna().to_numpy(dtype=bool)].tolist())
    for (run, number), group in places.groupby(["run_id", "part"], sort=True):
        sidecar = lake.sidecar(REDACTED, str(run))
        changed = LakeError(f"{run}: changed while a dataset was made; run `flywheel refresh` again")
        if sidecar is None or sidecar.content_digest != described[str(run)]:
            raise changed
        path = lake.part_path(sidecar, sidecar.parts[int(str(number))])
        by_position = dict(zip(group["position"].tolist(), group["row"].tolist(), strict=True))
        try:
            for position, rollout in read_rollouts(path, frozenset(by_position), exchanges=False):
                row = by_position[position]
                yield row, _regraded(rollout, index.frame, row) if row in later else rollout
        except FileNotFoundError:
            raise changed from None


def _regraded(rollout: Rollout, frame: pd.DataFrame, row: int) -> Rollout:
    """The rollout with the grade that the index holds: a later verdict took the place of its own."""
    verdict, grader, version = (frame[name].iat[row] for name in ("verdict", "grader", "grader_version"))
    reward = finite(frame["reward"].iat[row])
    return msgspec.structs.replace(rollout, verdict=verdict, reward=reward, grader=grader, grader_version=version)


def finite(value: Any) -> float | None:
    """A number of a frame; None for NaN and infinities."""
    return float(value) if np.isfinite(value) else None
