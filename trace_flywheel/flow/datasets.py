"""The assets over all runs, each a call: what it depends on, what it decides, what it publishes.

    grouped_advantages, depth_classifier   unpartitioned, in the lake
    sft_dataset, dpo_dataset, kto_dataset, rl_dataset, rl_prompts, balanced_mix   dataset versions
    NAME_sft, NAME_dpo, NAME_mix   the same for a recipe `[datasets.NAME]`

An asset whose inputs have not changed is left alone: a version's manifest holds the digest of its inputs, and the
newest version is the only record of what stands.
"""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import orjson
import pandas as pd
import pyarrow as pa

from trace_flywheel.curation.depth import DepthModel, seed_set, train, training_set_hash
from trace_flywheel.curation.depth_features import FEATURES_VERSION
from trace_flywheel.curation.difficulty import task_difficulty
from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow import curate
from trace_flywheel.flow.corpora import Corpora, corpora_digest, corpora_for, read_corpora
from trace_flywheel.flow.curate import Attempts, Curated
from trace_flywheel.flow.frame import Index, agreeing, digest_of, graded, load_index
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.manifest import hashed_settings, manifest_of, recipe_settings
from trace_flywheel.flow.mix import choose, mixed_fates, told
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.publish import Finisher, Row, layouts_for, rows_of, sft_row, texts, write_rows
from trace_flywheel.flow.redaction_facts import redaction_facts
from trace_flywheel.lake import dataset
from trace_flywheel.lake.card import card
from trace_flywheel.lake.files import replace_text
from trace_flywheel.lake.ledger import Ledger, fates_table
from trace_flywheel.lake.store import Lake, LakeError, Sidecar
from trace_flywheel.lake.withdrawn import in_force
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.fate import Stage
from trace_flywheel.records.grading import Withdrawal
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.settings import Settings

ADVANTAGES, CLASSIFIER = "grouped_advantages", "depth_classifier"
NAMES = {
    "sft": "sft_dataset",
    "pair": "dpo_dataset",
    "kto": "kto_dataset",
    "rl": "rl_dataset",
    "prompt": "rl_prompts",
    "mix": "balanced_mix",
}
"""Datasets of the default recipe by kind."""
SUFFIX = {"sft": "sft", "pair": "dpo", "mix": "mix"}
CODE = 2
"""Goes up when the same inputs and settings give other rows."""
Kind = Literal["sft", "pair", "kto", "rl", "prompt", "mix"]
DIFFICULTY = "task_difficulty"
"""Table beside the advantages: pass@k of every task."""
OF_RECIPES: tuple[Kind, ...] = ("sft", "pair", "mix")
"""Kinds that a recipe gives; the others exist once."""


class Made(msgspec.Struct, frozen=True):
    """What an asset over all runs became. `unchanged`: it stood already, from the same inputs; `restored`: the inputs
    are those of an older version again. `facts` are for people: counts, no text."""

    name: str
    status: Literal["made", "restored", "unchanged"]
    inputs_digest: str
    version: str
    rows: int
    path: Path
    ledger: Ledger
    facts: dict[str, Any] = {}


class Curation:
    """The state of one pass over the lake: what several assets need is worked out once, and only when one does."""

    def __init__(
        self, lake: Lake, settings: Settings, inputs: SideInputs, withdrawals: tuple[Withdrawal, ...] | None = None
    ) -> None:
        """`withdrawals`: other ones than those in force, to see what they would change."""
        self.lake, self.settings, self.inputs = lake, settings, inputs
        self._corpora: dict[tuple[Path, ...], Corpora] = {}
        self.withdrawals = in_force(lake) if withdrawals is None else withdrawals

    @cached_property
    def runs(self) -> tuple[Sidecar, ...]:
        return agreeing(self.lake)[0]

    @cached_property
    def index(self) -> Index:
        return graded(load_index(self.lake), self.inputs)

    @cached_property
    def attempts(self) -> Attempts:
        return curate.attempts(self.index, self.settings, self.withdrawals)

    @cached_property
    def holdout(self) -> Holdout:
        return Holdout(self.inputs.goldens, self.settings.goldens.overlap)

    def corpora(self, name: str) -> Corpora:
        """What rows of this dataset are held against; read once for all that share it."""
        paths = corpora_for(name, self.settings.corpora, self.settings.dedup.mode)
        if paths not in self._corpora:
            self._corpora[paths] = read_corpora(paths, self.lake.home)
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
        return content_id([CODE, digest_of(self.runs), rules, inputs])


def name_of(kind: Kind, recipe: str | None = None) -> str:
    """The dataset's name: of the default recipe, or `RECIPE_sft`, `RECIPE_dpo`, `RECIPE_mix`."""
    return NAMES[kind] if recipe is None else f"{recipe}_{SUFFIX[kind]}"


def published(lake: Lake, settings: Settings) -> tuple[Made, ...]:
    """The datasets of all recipes as they stand."""
    wanted = [name_of(kind, recipe) for kind, recipe in every(settings)]
    return tuple(made for name in wanted if (made := standing(lake, name)) is not None)


def freshness(lake: Lake, settings: Settings, inputs: SideInputs) -> tuple[str, tuple[str, ...]]:
    """(digest of the present state, names of the assets that it would change). Looks at digests alone."""
    curation = Curation(lake, settings, inputs)
    wanted = {ADVANTAGES: _advantages_digest(curation), CLASSIFIER: _classifier_digest()}
    stands = {name: current.inputs_digest for name in wanted if (current := lake.current(name)) is not None}
    for kind, recipe in every(settings):
        name = name_of(kind, recipe)
        wanted[name] = wanted_digest(curation, kind, recipe)
        if (made := standing(lake, name)) is not None:
            stands[name] = made.inputs_digest
    stale = [name for name, digest in wanted.items() if stands.get(name) != digest]
    return content_id(sorted(wanted.items())), tuple(stale)


def grouped_advantages(curation: Curation) -> Made:
    """The advantage of every attempt in its group, over all runs, before any filter; beside it what tasks are hard."""
    lake, digest = curation.lake, _advantages_digest(curation)
    current = lake.current(ADVANTAGES)
    fresh = current is not None and current.inputs_digest == digest
    if current is None or not fresh:
        keys = curation.index.frame[["run_id", "trace_id", "task_id", "reward"]]
        table = pd.concat([keys, curation.attempts.groups], axis=1)
        found: dict[str, Any] = {
            "rollouts": len(table),
            "groups": int(table["group_id"].nunique()),
            "with_advantage": int(table["advantage"].notna().sum()),
            "dropped": _without_advantage(curation.attempts),
        }
        hard = task_difficulty(curation.index.frame, curation.attempts.members)
        tables = {
            "advantages": pa.Table.from_pandas(table, preserve_index=False),
            DIFFICULTY: pa.Table.from_pandas(hard, preserve_index=False),
        }
        current = lake.put(ADVANTAGES, tables, digest, found)
    counts = current.counts
    ledger = Ledger(counts["rollouts"], counts["with_advantage"], counts["dropped"])
    path = lake.root / ADVANTAGES / current.digest
    status: Literal["made", "unchanged"] = "unchanged" if fresh else "made"
    return Made(ADVANTAGES, status, digest, current.digest, counts["with_advantage"], path, ledger, counts)


def _without_advantage(attempts: Attempts) -> dict[str, dict[str, int]]:
    """Rollouts without an advantage by stage and reason."""
    withheld = attempts.groups.loc[attempts.members & attempts.groups["reason"].notna(), ["reason"]]
    withheld = withheld.assign(stage=str(Stage.GROUPS))
    withheld.loc[withheld["reason"] == "mixed_graders", "stage"] = str(Stage.CONVERTIBLE)
    dropped: dict[str, dict[str, int]] = {}
    for stage, reason in sorted(pd.concat([attempts.drops, withheld])[["stage", "reason"]].itertuples(index=False)):
        reasons = dropped.setdefault(str(stage), {})
        reasons[str(reason)] = reasons.get(str(reason), 0) + 1
    return dropped


def depth_classifier(curation: Curation) -> Made:
    """The classifier of the mix, trained on the labelled prompts that come with the package."""
    lake, digest = curation.lake, _classifier_digest()
    current = lake.current(CLASSIFIER)
    fresh = current is not None and current.inputs_digest == digest
    if current is None or not fresh:
        model = train(seed_set())
        current = lake.put(CLASSIFIER, {}, digest, model.info, model.save)
    rows = current.counts["rows"]
    path = lake.root / CLASSIFIER / current.digest
    status: Literal["made", "unchanged"] = "unchanged" if fresh else "made"
    return Made(CLASSIFIER, status, digest, current.digest, rows, path, Ledger(rows, rows, {}), current.counts)


def make(curation: Curation, kind: Kind, recipe: str | None) -> Made:
    """The dataset of a kind and recipe. Raises `FlywheelError` while a golden cannot be read."""
    return balanced_mix(curation, recipe) if kind == "mix" else _dataset(curation, kind, recipe)


def sft_dataset(curation: Curation, recipe: str | None = None) -> Made:
    """SFT rows; without a recipe also `needs_grading.jsonl`, what could not be ranked."""
    return _dataset(curation, "sft", recipe)


def dpo_dataset(curation: Curation, recipe: str | None = None) -> Made:
    """Preference pairs."""
    return _dataset(curation, "pair", recipe)


def kto_dataset(curation: Curation) -> Made:
    """Unpaired answers: what no preference pair uses."""
    return _dataset(curation, "kto", None)


def rl_dataset(curation: Curation) -> Made:
    """Rollouts with their advantages."""
    return _dataset(curation, "rl", None)


def rl_prompts(curation: Curation) -> Made:
    """Prompts of the tasks that are neither always nor never solved."""
    return _dataset(curation, "prompt", None)


def balanced_mix(curation: Curation, recipe: str | None = None) -> Made:
    """The rows of the SFT set at the target shares of depth."""
    curation.inputs.require_goldens()
    lake, (settings, chosen_recipe) = curation.lake, recipe_settings(curation.settings, recipe)
    name, digest = name_of("mix", recipe), wanted_digest(curation, "mix", recipe)
    if (unchanged := _unchanged(lake, name, digest)) is not None:
        return unchanged
    source = standing(lake, name_of("sft", recipe))
    if source is None:
        raise LakeError(f"{name_of('sft', recipe)}: not made yet; the mix is made from it")
    version = dataset.read_version(source.path)
    model = DepthModel.load(depth_classifier(curation).path)
    chosen = choose(version, model, settings.mix, settings.seed)
    wanted = [p for p in dataset.provenance(version) if p.row_id in chosen.kept]
    layouts = layouts_for("sft", settings.layouts)
    with dataset.draft(lake.home, name, [one.NAME for one in layouts]) as draft:
        rows = _rows_named(curation, {(p.run_id, p.trace_ids[0]): p.row_id for p in wanted}, settings)
        done = write_rows(draft, rows, Finisher(layouts, redactor(policy_of(settings)), curation.holdout), settings)
        written = {row_id for ids in done.row_ids.values() for row_id in ids}
        late = {drop.evidence["row_id"]: drop for drop in done.late.values()}
        before = dataset.fates(version).to_pylist()
        fates = fates_table(mixed_fates(before, chosen, written, late, settings.mix.target))
        kinds = dict(sorted(done.kinds.items()))
        tasks = {p.task_id for p in wanted if p.row_id in written}
        thresholds = {t: at for t, at in source.facts["thresholds"].items() if t in tasks}
        facts = {
            **source.facts,
            "thresholds": thresholds,
            "kinds": kinds,
            "mix": chosen.report.as_dict(),
            "classifier": model.info,
        }
        warnings = (*done.warnings, *told(chosen.report))
        facts |= {"golden_files": curation.inputs.golden_files, "left_out": done.left_out}
        facts |= {"warnings": [*source.facts.get("warnings", ()), *warnings]}
        facts |= redaction_facts(name, curation.runs, done, settings)
        manifest = manifest_of(curation.runs, curation.inputs, settings, "sft", digest, CODE, done, facts, warnings)
        hashed = hashed_settings(settings, chosen_recipe, layouts)
        made = draft.publish(fates, hashed, manifest, card, settings.versions.keep)
    return published_as(made)


def decided(curation: Curation, kind: curate.Kind, recipe: str | None) -> Curated:
    """What a dataset would hold: every decision before publication."""
    settings, chosen = recipe_settings(curation.settings, recipe)
    index, common = curation.index, curation.attempts
    if recipe is not None:
        index, common = curate.of_recipe(index, common, chosen)
    if kind == "sft":
        return curate.sft(index, common, curation.holdout, curation.corpora(name_of(kind, recipe)), settings)
    decide = {"pair": curate.pairs, "kto": curate.kto, "rl": curate.rl, "prompt": curate.prompts}[kind]
    return decide(index, common, curation.holdout, settings)


def _dataset(curation: Curation, kind: curate.Kind, recipe: str | None) -> Made:
    curation.inputs.require_goldens()
    lake, (settings, chosen) = curation.lake, recipe_settings(curation.settings, recipe)
    name, digest = name_of(kind, recipe), wanted_digest(curation, kind, recipe)
    if (unchanged := _unchanged(lake, name, digest)) is not None:
        return unchanged
    curated = decided(curation, kind, recipe)
    index = curated.index
    if kind == "sft" and recipe is None:
        lines = [orjson.dumps(row, option=orjson.OPT_SORT_KEYS).decode() for row in curate.needs_grading(curated)]
        replace_text(lake.root / "needs_grading.jsonl", "".join(f"{line}\n" for line in lines))
    layouts = layouts_for(kind, settings.layouts)
    with dataset.draft(lake.home, name, [one.NAME for one in layouts]) as draft:
        finisher = Finisher(layouts, redactor(policy_of(settings)), curation.holdout)
        done = write_rows(draft, rows_of(lake, curated, settings), finisher, settings)
        fates = fates_table(curate.fates(curated, done.row_ids, done.late))
        shown = {"kinds": dict(sorted(done.kinds.items())), "corpora": list(curation.corpora_digest)}
        facts = {**curated.facts, **index.joined, **shown, "left_out": done.left_out}
        warnings = (*index.warnings, *curated.warnings, *done.warnings)
        facts |= {"golden_files": curation.inputs.golden_files, "warnings": list(warnings)}
        facts |= redaction_facts(name, index.runs, done, settings)
        manifest = manifest_of(index.runs, curation.inputs, settings, kind, digest, CODE, done, facts, warnings)
        hashed = hashed_settings(settings, chosen, layouts)
        made = draft.publish(fates, hashed, manifest, card, settings.versions.keep)
    return published_as(made)


def _rows_named(
    curation: Curation, row_ids: dict[tuple[str, str], str], settings: Settings
) -> Iterator[tuple[tuple[int, ...], Row]]:
    """The rows of these ids, made from their text again. A trace that stands twice in its run gives its row once."""
    frame, given = curation.index.frame, set()
    addresses = zip(frame["run_id"].tolist(), frame["trace_id"].tolist(), strict=True)
    rows = np.array([row for row, address in enumerate(addresses) if address in row_ids], dtype=np.int64)
    for row, rollout in texts(curation.lake, curation.index, rows):
        made = sft_row(rollout, settings.redaction.supervise_placeholders)
        if made is not None and made.row_id == row_ids[rollout.run_id, rollout.trace_id] and made.row_id not in given:
            given.add(made.row_id)
            yield (row,), made


def every(settings: Settings) -> Iterator[tuple[Kind, str | None]]:
    """(kind, recipe) of all datasets, a mix after the SFT set that it is made from."""
    kinds: tuple[Kind, ...] = ("sft", "pair", "kto", "rl", "prompt", "mix")
    yield from ((kind, None) for kind in kinds)
    yield from ((kind, recipe) for recipe in sorted(settings.datasets) for kind in OF_RECIPES)


def _advantages_digest(curation: Curation) -> str:
    return content_id([curation.inputs_digest, curation.settings.groups.model_dump(mode="json")])


def _classifier_digest() -> str:
    return content_id([CODE, FEATURES_VERSION, training_set_hash(seed_set())])


def wanted_digest(curation: Curation, kind: Kind, recipe: str | None) -> str:
    """Digest of all that a dataset depends on."""
    settings, chosen = recipe_settings(curation.settings, recipe)
    if kind != "mix":
        hashed = hashed_settings(settings, chosen, layouts_for(kind, settings.layouts))
        return content_id([curation.inputs_digest, hashed])
    hashed = hashed_settings(settings, chosen, layouts_for("sft", settings.layouts))
    source = standing(curation.lake, name_of("sft", recipe))
    return content_id([curation.inputs_digest, hashed, source.version if source else None, _classifier_digest()])


def _unchanged(lake: Lake, name: str, digest: str) -> Made | None:
    made = standing(lake, name)
    return made if made is not None and made.inputs_digest == digest else None


def standing(lake: Lake, name: str) -> Made | None:
    """A dataset as its newest publication left it; None where there is none. A damaged version raises `LakeError`."""
    if name not in dataset.names(lake.home):
        return None
    version = dataset.find_version(lake.home, name)
    return msgspec.structs.replace(published_as(version), status="unchanged")


def published_as(version: dataset.Version) -> Made:
    """A version as what its asset became."""
    manifest = version.manifest
    counts, digest = manifest["counts"], manifest["inputs"]["digest"]
    ledger = Ledger(counts["in"], counts["kept"], counts["dropped"])
    status: Literal["made", "restored"] = "made" if version.new else "restored"
    return Made(
        version.name, status, digest, version.version, version.rows, version.path, ledger, manifest.get("facts", {})
    )


def rows_now(lake: Lake, name: str) -> int | None:
    """Rows of an asset over all runs as it stands; None where it was never made."""
    if name in (ADVANTAGES, CLASSIFIER):
        current = lake.current(name)
        return None if current is None else int(current.counts["with_advantage" if name == ADVANTAGES else "rows"])
    made = standing(lake, name)
    return None if made is None else made.rows
