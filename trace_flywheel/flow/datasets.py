"""The dataset assets, each a call: what it decides and what it publishes.

An asset whose inputs have not changed is left alone: a version's manifest holds the digest of its inputs, and the
newest version is the only record of what stands.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import msgspec
import numpy as np
import orjson
import pyarrow as pa

from trace_flywheel.curation.decisions import no_drops
from trace_flywheel.curation.depth import DepthModel
from trace_flywheel.flow import funnel
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.decided import decided
from trace_flywheel.flow.fates import Fates, needs_grading
from trace_flywheel.flow.finishing import Finished, Making, finish, finish_piece
from trace_flywheel.flow.frame import Index
from trace_flywheel.flow.freshness import CODE, wanted_digest
from trace_flywheel.flow.funnel import Curated
from trace_flywheel.flow.manifest import hashed_settings, manifest_of, recipe_settings
from trace_flywheel.flow.mix import Chosen, choose, loss, mixed_fates
from trace_flywheel.flow.names import Kind, name_of, refusals_of
from trace_flywheel.flow.pieces import pieces, rows_of
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.publish import Finisher, layouts_for
from trace_flywheel.flow.redaction_facts import redaction_facts
from trace_flywheel.flow.reused import Reused
from trace_flywheel.flow.standing import Made, published_as, refused_as, standing, unchanged_since
from trace_flywheel.flow.tables import depth_classifier
from trace_flywheel.flow.turn import ALONE, Turn
from trace_flywheel.flow.writing import add_rows, copied
from trace_flywheel.lake import dataset
from trace_flywheel.lake.card import card
from trace_flywheel.lake.draft import Draft, drafting
from trace_flywheel.lake.files import replace_text
from trace_flywheel.lake.ledger import ledger_of
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.records.fate import Stage
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.settings import Settings
from trace_flywheel.trainers.layout import Layout

CHARS_A_SECOND = 8_000_000
"""Of text that becomes finished rows in their layouts, about."""


def make(curation: Curation, kind: Kind, recipe: str | None, turn: Turn = ALONE) -> Made:
    """The dataset of a kind and recipe. Raises `FlywheelError` while a golden or a file of verdicts cannot be read."""
    return balanced_mix(curation, recipe, turn) if kind == "mix" else _dataset(curation, kind, recipe, turn)


def sft_dataset(curation: Curation, recipe: str | None = None) -> Made:
    """SFT rows; without a recipe also `needs_grading.jsonl`, what could not be ranked."""
    return _dataset(curation, "sft", recipe)


def dpo_dataset(curation: Curation, recipe: str | None = None) -> Made:
    """Preference pairs."""
    return _dataset(curation, "pair", recipe)


def kto_dataset(curation: Curation, recipe: str | None = None) -> Made:
    """Unpaired answers: what no preference pair uses."""
    return _dataset(curation, "kto", recipe)


def rl_dataset(curation: Curation, recipe: str | None = None) -> Made:
    """Rollouts with their advantages."""
    return _dataset(curation, "rl", recipe)


def rl_prompts(curation: Curation, recipe: str | None = None) -> Made:
    """Prompts of the tasks that are neither always nor never solved."""
    return _dataset(curation, "prompt", recipe)


def balanced_mix(curation: Curation, recipe: str | None = None, turn: Turn = ALONE) -> Made:
    """The rows of the SFT set at the target shares.

    A mix that loses the whole set is refused: the version before stays, if there is one, and the refusal stands in the
    lake with its reason. Only rows that must not be trained on any more give way to an empty version, which says why.
    """
    curation.inputs.require_all()
    lake, (settings, chosen_recipe) = curation.lake, recipe_settings(curation.settings, recipe)
    name, digest = name_of("mix", recipe), wanted_digest(curation, "mix", recipe)
    if (unchanged := unchanged_since(lake, name, digest)) is not None:
        return unchanged
    source = standing(lake, name_of("sft", recipe))
    if source is None:
        raise LakeError(f"{name_of('sft', recipe)}: not made yet; the mix is made from it")
    version = dataset.read_version(source.path)
    model = DepthModel.load(depth_classifier(curation, recipe).path)
    chosen = choose(version, model, settings.mix, settings.seed, curation.index.frame)
    reason = loss(chosen)
    if reason is not None and not _must_give_way(standing(lake, name), version):
        before = dataset.fates_in_order(version)
        ledger = ledger_of(pa.concat_tables(mixed_fates(before, chosen, set(), {}, settings.mix.target)))
        told = {"reason": reason, "mix": _told(chosen), "ledger": ledger.as_json()}
        turn.decided()
        turn.wait()
        return refused_as(lake, name, lake.put(refusals_of(name), {}, digest, told))
    layouts = layouts_for("sft", settings.layouts)
    with (
        drafting(lake.home, name, [one.NAME for one in layouts]) as draft,
        closing(Reused(draft, curation, "sft", layouts, settings, source.name)) as reused,
    ):
        about = dataset.provenance(version, dataset.ADDRESSES)
        row_ids = {(p.run_id, p.trace_ids[0]): p.row_id for p in about if p.row_id in chosen.kept}
        make = partial(_finished_here, draft, curation, layouts, settings)
        with closing(reused.finished(_named(curation.index, row_ids), make)) as finished:
            rows = _of_ids(finished, row_ids, chosen.weights)
            done = add_rows(draft, rows, layouts, settings, "sft", chosen.places)
        written = done.uses.numbers
        late = {drop.evidence["row_id"]: drop for drop in done.late.values()}
        fates = mixed_fates(dataset.fates_in_order(version), chosen, written, late, settings.mix.target)
        kinds = dict(sorted(done.kinds.items()))
        tasks = {p.task_id for p in dataset.provenance(version, dataset.ADDRESSES) if p.row_id in written}
        thresholds = {t: at for t, at in source.facts["thresholds"].items() if t in tasks}
        facts = {
            **source.facts,
            "thresholds": thresholds,
            "kinds": kinds,
            "mix": _told(chosen),
            "classifier": model.info,
        }
        warnings = (*done.warnings, *((reason,) if reason else ()))
        facts |= {"golden_files": curation.inputs.golden_files, "left_out": done.left_out}
        facts |= {"warnings": [*source.facts.get("warnings", ()), *warnings]}
        facts |= redaction_facts(name, curation.runs, done, settings)
        manifest = manifest_of(curation.runs, curation.inputs, settings, "sft", digest, CODE, done, facts, warnings)
        hashed = hashed_settings(settings, chosen_recipe, layouts)
        turn.decided()
        draft.write(partial(copied, curation.crew, policy_of(settings)))
        turn.wait()
        curation.inputs.require_unchanged()
        made = draft.publish(fates, hashed, manifest, card, settings.versions.keep)
    lake.discard(refusals_of(name))
    return published_as(made)


def _must_give_way(before: Made | None, source: dataset.Version) -> bool:
    """Whether a version holds rows that were withdrawn, erased or held out since."""
    if before is None:
        return False
    barred = {
        (fate["run_id"], fate["trace_id"])
        for fate in dataset.fates(source, ("run_id", "trace_id", "stage", "reason")).to_pylist()
        if fate["stage"] in (Stage.GOLDEN, Stage.REDACT) or fate["reason"] in ("withdrawn", "purged")
    }
    rows = dataset.provenance(dataset.read_version(before.path), dataset.ADDRESSES)
    return any((row.run_id, row.trace_ids[0]) in barred for row in rows)


def _told(chosen: Chosen) -> dict[str, Any]:
    """What the mix did, for people."""
    more = {"disagreements": chosen.disagreements, "uncertain": len(chosen.uncertain)}
    return chosen.report.as_dict() | {name: value for name, value in more.items() if value}


def _of_ids(
    rows: Iterable[Finished], row_ids: Mapping[tuple[str, str], str], weights: Mapping[str, float]
) -> Iterator[Finished]:
    """The rows of these ids, each with its weight in training, where the mix gives weights. A trace that stands twice
    in its run gives its row once."""
    given: set[str] = set()
    for row in rows:
        about = row.provenance
        if about.row_id == row_ids[about.run_id, about.trace_ids[0]] and about.row_id not in given:
            given.add(about.row_id)
            weighted = msgspec.structs.replace(about, weight=weights.get(about.row_id))
            yield msgspec.structs.replace(row, provenance=weighted)


def _dataset(curation: Curation, kind: funnel.Kind, recipe: str | None, turn: Turn = ALONE) -> Made:
    curation.inputs.require_all()
    lake, (settings, chosen) = curation.lake, recipe_settings(curation.settings, recipe)
    name, digest = name_of(kind, recipe), wanted_digest(curation, kind, recipe)
    if (unchanged := unchanged_since(lake, name, digest)) is not None:
        return unchanged
    curated = decided(curation, kind, recipe)
    pa.default_memory_pool().release_unused()
    index = curated.index
    turn.decided()
    layouts = layouts_for(kind, settings.layouts)
    with (
        drafting(lake.home, name, [one.NAME for one in layouts]) as draft,
        closing(Reused(draft, curation, kind, layouts, settings)) as reused,
    ):
        make = partial(_finished, draft, curation, layouts, settings)
        # Whoever is still at work ends before the draft goes.
        with closing(reused.finished(curated, make)) as finished:
            done = add_rows(draft, finished, layouts, settings, kind)
        fates = Fates(curated, done.uses, done.late)
        pa.default_memory_pool().release_unused()
        shown = {"kinds": dict(sorted(done.kinds.items())), "corpora": list(curation.corpora_digest)}
        shown |= done.about.as_facts()
        facts = {**curated.facts, **index.joined, **shown, "left_out": done.left_out}
        told = (*curation.attempts.warnings, *curated.warnings, *funnel.told_of_crossing(curated))
        warnings = (*index.warnings, *told, *done.warnings)
        facts |= {"golden_files": curation.inputs.golden_files, "warnings": list(warnings)}
        facts |= redaction_facts(name, index.runs, done, settings)
        manifest = manifest_of(index.runs, curation.inputs, settings, kind, digest, CODE, done, facts, warnings)
        hashed = hashed_settings(settings, chosen, layouts)
        draft.write(partial(copied, curation.crew, policy_of(settings)))
        turn.wait()
        if kind == "sft" and recipe is None:
            lines = [orjson.dumps(row, option=orjson.OPT_SORT_KEYS).decode() for row in needs_grading(curated)]
            replace_text(lake.root / "needs_grading.jsonl", "".join(f"{line}\n" for line in lines))
        curation.inputs.require_unchanged()
        made = draft.publish(fates, hashed, manifest, card, settings.versions.keep)
        del fates
        pa.default_memory_pool().release_unused()
        reused.keep(made)
    return published_as(made)


def _finished(
    draft: Draft, curation: Curation, layouts: Sequence[Layout], settings: Settings, curated: Curated
) -> Generator[Finished]:
    """The rows that were chosen, finished by the processes of the pass."""
    names, policy = tuple(one.NAME for one in layouts), policy_of(settings)
    supervise = settings.redaction.supervise_placeholders
    work = pieces(curation.lake, curated)
    tasks = (Making(draft.folder, names, policy, supervise, piece) for piece in work)
    chars = int(curated.index.frame["n_chars"].to_numpy()[curated.kept].sum())
    for done in curation.crew.over(finish_piece, tasks, chars / CHARS_A_SECOND):
        yield from done


def _finished_here(
    draft: Draft, curation: Curation, layouts: Sequence[Layout], settings: Settings, curated: Curated
) -> Generator[Finished]:
    """The SFT rows that were chosen, finished by this process: few, where any."""
    if len(curated.kept):
        finisher = Finisher(layouts, redactor(policy_of(settings)), curation.holdout)
        rows = rows_of(curation.lake, curated, settings)
        yield from finish(rows, finisher, draft.folder)


def _named(index: Index, addresses: Collection[tuple[str, str]]) -> Curated:
    """The rollouts at these addresses: run and trace."""
    frame = index.frame
    named = np.flatnonzero(frame["trace_id"].isin({trace for _, trace in addresses}).to_numpy(dtype=bool))
    found = zip(*(frame[name].iloc[named].tolist() for name in ("run_id", "trace_id")), strict=True)
    return Curated("sft", index, named[[address in addresses for address in found]], no_drops())
