"""The state of one pass over the lake: what its assets decide with."""

from functools import cached_property
from pathlib import Path

import numpy as np

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow import funnel
from trace_flywheel.flow.children import worker_count
from trace_flywheel.flow.corpora import Corpora, corpora_for, open_corpora
from trace_flywheel.flow.corpus_segments import Comparison
from trace_flywheel.flow.crew import Crew
from trace_flywheel.flow.frame import Index, graded, load_index
from trace_flywheel.flow.freshness import Basis
from trace_flywheel.flow.funnel import Attempts
from trace_flywheel.flow.goldens import holdout_over
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.meanings import Meanings
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.lake.purged import erased_rows
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.grading import Withdrawal
from trace_flywheel.settings import Settings

MANY = 1_000
"""Rollouts from which on this process never finishes a row: the rules for it would stand beside the index."""


class Curation(Basis):
    """The state of one pass over the lake: what several assets need is worked out once, and only when one does."""

    def __init__(
        self, lake: Lake, settings: Settings, inputs: SideInputs, withdrawals: tuple[Withdrawal, ...] | None = None
    ) -> None:
        super().__init__(lake, settings, inputs, withdrawals)
        self._corpora: dict[tuple[Path, ...], Corpora] = {}
        self.paired: dict[str | None, np.ndarray] = {}
        """By recipe the rows that its preference pairs use, once they are decided: its unpaired answers are others."""

    @cached_property
    def index(self) -> Index:
        return graded(load_index(self.lake), self.inputs)

    @cached_property
    def attempts(self) -> Attempts:
        return funnel.attempts(self.index, self.settings, self.withdrawals, self.gone)

    @cached_property
    def holdout(self) -> Holdout:
        return holdout_over(self.lake, self.settings, self.inputs)

    @cached_property
    def crew(self) -> Crew[Holdout]:
        """The processes that finish rows and read them again."""
        rollouts = sum(run.counts.kept for run in self.runs)
        return Crew(self.holdout, worker_count(self.settings.ingest.workers), at_once=rollouts >= MANY)

    @cached_property
    def meanings(self) -> Meanings:
        return Meanings(self.lake, self.settings.redaction.supervise_placeholders)

    def corpora(self, name: str) -> Corpora:
        """What rows of this dataset are held against; read once for all that share it."""
        paths = corpora_for(name, self.settings.corpora, self.settings.dedup.mode)
        if paths not in self._corpora:
            self._corpora[paths] = open_corpora(
                paths,
                self.lake.home,
                Comparison(policy_of(self.settings), self.settings.redaction.supervise_placeholders),
                keep=self.settings.dedup.index,
                withdrawals=self.withdrawals,
                erased=erased_rows(self.lake.root),
            )
        return self._corpora[paths]
