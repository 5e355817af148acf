"""Sentence vectors of chosen rows, from their text in the lake; each row and each prompt is encoded once a pass."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from trace_flywheel.curation.embedding import Encoder, encoder
from trace_flywheel.curation.sketch import prompt_text, supervised_text
from trace_flywheel.flow.dataset_rows import sft_row
from trace_flywheel.flow.frame import Index
from trace_flywheel.flow.manifest import EMBEDDING
from trace_flywheel.flow.texts import texts
from trace_flywheel.lake.store import Lake

Encoded = tuple[np.ndarray, np.ndarray]


class Meanings:
    """What rows mean. A vector is 2 kB, and rows of one task share that of their prompt."""

    def __init__(self, lake: Lake, placeholders: Literal["mask", "keep"]) -> None:
        self._lake, self._placeholders = lake, placeholders
        self._rows: dict[tuple[str, str], Encoded] = {}
        self._prompts: dict[str, np.ndarray] = {}

    @property
    def model(self) -> str:
        return self._encoder.fingerprint

    @property
    def _encoder(self) -> Encoder:
        return encoder(EMBEDDING)

    def of(self, index: Index) -> Callable[[np.ndarray], list[Encoded]]:
        """The vectors of rows of this index, in the order asked for."""

        def vectors(rows: np.ndarray) -> list[Encoded]:
            runs, traces = index.frame["run_id"], index.frame["trace_id"]
            names = [(str(runs.iat[row]), str(traces.iat[row])) for row in rows.tolist()]
            missing = [row for row, name in zip(rows.tolist(), names, strict=True) if name not in self._rows]
            for row, rollout in texts(self._lake, index, np.array(sorted(missing), dtype=np.int64)):
                messages = sft_row(rollout, self._placeholders).messages
                asked = prompt_text(messages)
                if asked not in self._prompts:
                    self._prompts[asked] = self._encoder.encode(asked)
                learned = self._encoder.encode(supervised_text(messages))
                self._rows[str(runs.iat[row]), str(traces.iat[row])] = (self._prompts[asked], learned)
            return [self._rows[name] for name in names]

        return vectors
