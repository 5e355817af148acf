"""The state of one pass over the lake, and the digests by which an asset knows whether it is up to date."""

from functools import cached_property
from pathlib import Path

import numpy as np

from trace_flywheel.curation.depth import training_set_hash
from trace_flywheel.curation.depth_embedding import model_encoder
from trace_flywheel.curation.depth_features import FEATURES_VERSION
from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow import funnel
from trace_flywheel.flow.corpora import Corpora, corpora_digest, corpora_for, open_corpora
from trace_flywheel.flow.corpus_segments import Comparison
from trace_flywheel.flow.crew import Crew
from trace_flywheel.flow.depth.train import labelled_of
from trace_flywheel.flow.frame import Index, agreeing, digest_of, graded, load_index, unusable
from trace_flywheel.flow.funnel import Attempts
from trace_flywheel.flow.goldens import holdout_over
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.manifest import hashed_settings, recipe_settings
from trace_flywheel.flow.meanings import Meanings
from trace_flywheel.flow.names import ADVANTAGES, Kind, classifier_of, every, name_of, refusals_of
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.publish import layouts_for
from trace_flywheel.flow.standing import standing
from trace_flywheel.flow.workers import worker_count
from trace_flywheel.lake.purged import erased_rows
from trace_flywheel.lake.sidecar import Sidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.lake.withdrawn import in_force
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.grading import Withdrawal
from trace_flywheel.settings import Depth, Settings

CODE = 5
"""Goes up when the same inputs and settings give other rows."""


MANY = 1_000
"""Rollouts from which on this process never finishes a row: the rules for it would stand beside the index."""


class Curation:
    """The state of one pass over the lake: what several assets need is worked out once, and only when one does."""

    def __init__(
        self, lake: Lake, settings: Settings, inputs: SideInputs, withdrawals: tuple[Withdrawal, ...] | None = None
    ) -> None:
        """`withdrawals`: other ones than those in force, to see what they would change."""
        self.lake, self.settings, self.inputs = lake, settings, inputs
        self._corpora: dict[tuple[Path, ...], Corpora] = {}
        self.paired: dict[str | None, np.ndarray] = {}
        """By recipe the rows that its preference pairs use, once they are decided: its unpaired answers are others."""
        self.withdrawals = in_force(lake) if withdrawals is None else withdrawals

    @cached_property
    def runs(self) -> tuple[Sidecar, ...]:
        return agreeing(self.lake)[0]

    @cached_property
    def index(self) -> Index:
        return graded(load_index(self.lake), self.inputs)

    @cached_property
    def attempts(self) -> Attempts:
        return funnel.attempts(self.index, self.settings, self.withdrawals, self.gone)

    @cached_property
    def gone(self) -> tuple[str, ...]:
        """Runs in the lake whose root was looked into and holds them no more. Of other roots nothing is known."""
        labels = {run_id.partition("/")[0] for run_id in self.inputs.present}
        known = [s.run_id for s in self.runs if s.run_id not in self.inputs.present]
        return tuple(run_id for run_id in known if run_id.partition("/")[0] in labels)

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

    @cached_property
    def corpora_digest(self) -> tuple[str, ...]:
        return corpora_digest(self.settings.corpora, self.lake.home)

    @cached_property
    def inputs_digest(self) -> str:
        """Of all that the assets over all runs depend on, settings apart."""
        rules = policy_of(self.settings).digest()
        inputs = [self.inputs.goldens_digest, self.inputs.grades_digest, self.corpora_digest]
        inputs += [[w.what, w.reason] for w in self.withdrawals]
        inputs += [["gone", *self.gone]] if self.gone else []
        if told := unusable(self.inputs):  # a version that was warned of is another once the file is mended
            inputs.append(["told", *told])
        return content_id([CODE, digest_of(self.runs), rules, inputs])


def freshness(lake: Lake, settings: Settings, inputs: SideInputs) -> tuple[str, tuple[str, ...]]:
    """(digest of the present state, names of the assets that it would change). Looks at digests alone."""
    curation = Curation(lake, settings, inputs)
    wanted = {ADVANTAGES: advantages_digest(curation)}
    for recipe in (None, *sorted(settings.datasets)):
        name, depth = classifier_of(settings, recipe)
        wanted[name] = classifier_digest(depth)
    stands = {name: current.inputs_digest for name in wanted if (current := lake.current(name)) is not None}
    for kind, recipe in every(settings):
        name = name_of(kind, recipe)
        wanted[name] = wanted_digest(curation, kind, recipe)
        if (refusal := lake.current(refusals_of(name))) is not None:
            stands[name] = refusal.inputs_digest
        elif (made := standing(lake, name)) is not None:
            stands[name] = made.inputs_digest
    stale = [name for name, digest in wanted.items() if stands.get(name) != digest]
    return content_id(sorted(wanted.items())), tuple(stale)


def advantages_digest(curation: Curation) -> str:
    return content_id([curation.inputs_digest, curation.settings.groups.model_dump(mode="json")])


def classifier_digest(depth: Depth) -> str:
    """Of what a classifier learns from, sees it with, is judged by, and has to reach. Raises `EmbeddingError` where its
    encoder is not installed."""
    rows, held_out = labelled_of(depth)
    seen = [FEATURES_VERSION, *([model_encoder().fingerprint] if depth.backend == "embedding" else [])]
    return content_id([CODE, *seen, training_set_hash(rows), training_set_hash(held_out), depth.min_f1])


def wanted_digest(curation: Curation, kind: Kind, recipe: str | None) -> str:
    """Digest of all that a dataset depends on."""
    settings, chosen = recipe_settings(curation.settings, recipe)
    if kind != "mix":
        hashed = hashed_settings(settings, chosen, layouts_for(kind, settings.layouts))
        return content_id([curation.inputs_digest, hashed])
    hashed = hashed_settings(settings, chosen, layouts_for("sft", settings.layouts))
    classifier = classifier_digest(classifier_of(curation.settings, recipe)[1])
    source = standing(curation.lake, name_of("sft", recipe))
    return content_id([curation.inputs_digest, hashed, source.version if source else None, classifier])
