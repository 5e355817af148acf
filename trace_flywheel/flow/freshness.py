"""Whether the assets over all runs are up to date: what they are made from, told by digests alone.

Nothing of the lake but sidecars and manifests is read for it, and no table library is loaded: a refresh that finds
nothing to do asks no more than this, and so do the sensors.
"""

from functools import cached_property

from trace_flywheel.curation.depth import training_set_hash
from trace_flywheel.curation.depth_embedding import model_encoder
from trace_flywheel.curation.depth_features import FEATURES_VERSION
from trace_flywheel.flow.agreement import agreeing, digest_of, unusable
from trace_flywheel.flow.corpora import corpora_digest
from trace_flywheel.flow.depth.train import labelled_of
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.manifest import hashed_settings, recipe_settings
from trace_flywheel.flow.names import ADVANTAGES, Kind, classifier_of, doubts_of, every, name_of, refusals_of
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.publish import layouts_for
from trace_flywheel.flow.standing import standing
from trace_flywheel.lake.sidecar import Sidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.lake.withdrawn import in_force
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.grading import Withdrawal
from trace_flywheel.settings import Depth, Settings

CODE = 5
"""Goes up when the same inputs and settings give other rows."""


class Basis:
    """What a pass over the lake starts from."""

    def __init__(
        self, lake: Lake, settings: Settings, inputs: SideInputs, withdrawals: tuple[Withdrawal, ...] | None = None
    ) -> None:
        """`withdrawals`: other ones than those in force, to see what they would change."""
        self.lake, self.settings, self.inputs = lake, settings, inputs
        self.withdrawals = in_force(lake) if withdrawals is None else withdrawals

    @cached_property
    def runs(self) -> tuple[Sidecar, ...]:
        return agreeing(self.lake)[0]

    @cached_property
    def gone(self) -> tuple[str, ...]:
        """Runs in the lake whose root was looked into and holds them no more. Of other roots nothing is known."""
        labels = {run_id.partition("/")[0] for run_id in self.inputs.present}
        known = [s.run_id for s in self.runs if s.run_id not in self.inputs.present]
        return tuple(run_id for run_id in known if run_id.partition("/")[0] in labels)

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
    basis = Basis(lake, settings, inputs)
    wanted = {ADVANTAGES: advantages_digest(basis)}
    for recipe in (None, *sorted(settings.datasets)):
        name, depth = classifier_of(settings, recipe)
        wanted[name] = classifier_digest(depth)
    stands = {name: current.inputs_digest for name in wanted if (current := lake.current(name)) is not None}
    for kind, recipe in every(settings):
        name = name_of(kind, recipe)
        wanted[name] = wanted_digest(basis, kind, recipe)
        if lake.current(doubts_of(name)) is not None:
            continue
        if (refusal := lake.current(refusals_of(name))) is not None:
            stands[name] = refusal.inputs_digest
        elif (made := standing(lake, name)) is not None:
            stands[name] = made.inputs_digest
    stale = [name for name, digest in wanted.items() if stands.get(name) != digest]
    return content_id(sorted(wanted.items())), tuple(stale)


def advantages_digest(basis: Basis) -> str:
    return content_id([basis.inputs_digest, basis.settings.groups.model_dump(mode="json")])


def classifier_digest(depth: Depth) -> str:
    """Of what a classifier learns from, sees it with, is judged by, and has to reach. Raises `EmbeddingError` where its
    encoder is not installed."""
    rows, held_out = labelled_of(depth)
    seen = [FEATURES_VERSION, *([model_encoder().fingerprint] if depth.backend == "embedding" else [])]
    return content_id([CODE, *seen, training_set_hash(rows), training_set_hash(held_out), depth.min_f1])


def wanted_digest(basis: Basis, kind: Kind, recipe: str | None) -> str:
    """Digest of all that a dataset depends on."""
    settings, chosen = recipe_settings(basis.settings, recipe)
    if kind != "mix":
        hashed = hashed_settings(settings, chosen, layouts_for(kind, settings.layouts))
        return content_id([basis.inputs_digest, hashed])
    hashed = hashed_settings(settings, chosen, layouts_for("sft", settings.layouts))
    classifier = classifier_digest(classifier_of(basis.settings, recipe)[1])
    source = standing(basis.lake, name_of("sft", recipe))
    return content_id([basis.inputs_digest, hashed, source.version if source else None, classifier])
