"""Withdrawing rollouts: first the rows that would change, then the note in the lake that later curations obey.

*recompute*: the next refresh decides as if the rollouts had never been: others may take their place.
*excise*: the newest versions are published again at once without the rows that used them; nothing takes their place,
and no statistic moves until other inputs change. In both, what is withdrawn stays out of every later version.
"""

from collections.abc import Iterator, Set
from functools import partial
from typing import Any

import msgspec
import orjson

from trace_flywheel.curation.withdrawal import Covering, withdrawn
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.dataset_rows import Row
from trace_flywheel.flow.decided import decided
from trace_flywheel.flow.export import rows_of_version
from trace_flywheel.flow.finishing import finish
from trace_flywheel.flow.freshness import wanted_digest
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.names import every, name_of
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.publish import Finisher, layouts_for
from trace_flywheel.flow.row_facts import RowFacts
from trace_flywheel.flow.standing import Made, published_as, standing
from trace_flywheel.flow.writing import Published, add_rows, copied
from trace_flywheel.lake import dataset
from trace_flywheel.lake.card import card
from trace_flywheel.lake.draft import drafting
from trace_flywheel.lake.ledger import fates_table
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.lake.store import Lake
from trace_flywheel.lake.withdrawn import in_force, note
from trace_flywheel.records.canonical import canonical_json
from trace_flywheel.records.fate import Stage
from trace_flywheel.records.grading import Withdrawal
from trace_flywheel.records.rows import Provenance
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.settings import Settings, Splits


class Difference(msgspec.Struct, frozen=True):
    """Rows that a dataset would lose and gain, as `run/trace` (of a pair: chosen > rejected), sorted."""

    name: str
    lost: tuple[str, ...]
    gained: tuple[str, ...]


def difference(
    lake: Lake, settings: Settings, inputs: SideInputs, after: tuple[Withdrawal, ...], excise: bool = False
) -> Iterator[Difference]:
    """Every published dataset against what it would be under the withdrawals `after`, or only without what they cover.

    A mix is told by what its own rows lose: which others come in is known when it is drawn.
    """
    curation, covering = Curation(lake, settings, inputs, after), Covering(after)
    for kind, recipe in every(settings):
        made = standing(lake, name_of(kind, recipe))
        if made is None:
            continue
        before = list(dataset.provenance(dataset.read_version(made.path)))
        if excise or kind == "mix":
            left = {_name(row) for row in before if not _uses(row, covering)}
        else:
            curated = decided(curation, kind, recipe)
            frame = curated.index.frame
            names = (frame["run_id"] + "/" + frame["trace_id"]).tolist()
            if curated.pairs is not None:
                table = curated.pairs.table
                sides = zip(table["chosen"].tolist(), table["rejected"].tolist(), strict=True)
                left = {f"{names[chosen]} > {names[rejected]}" for chosen, rejected in sides}
            else:
                left = {names[row] for row in curated.kept.tolist()}
        now = {_name(row) for row in before}
        yield Difference(made.name, tuple(sorted(now - left)), tuple(sorted(left - now)))


def covers_some(lake: Lake, settings: Settings, inputs: SideInputs, entry: Withdrawal) -> bool:
    """Whether a rollout of the lake, or one that could not be read, is what the entry names."""
    index = Curation(lake, settings, inputs).index
    lost = ((drop.run_id or "", drop.trace_id or "") for drop in index.lost)
    graded = index.frame[["run_id", "trace_id", "grader", "grader_version"]]
    return len(withdrawn(graded, (entry,))) > 0 or any(entry.covers(*at, None, None) for at in lost)


def excise(lake: Lake, settings: Settings, inputs: SideInputs, entry: Withdrawal) -> list[Made]:
    """Note the withdrawal, and publish the newest version of every dataset again without the rows that use what is
    withdrawn. The caller holds the home's lock.

    A version that was made from the present inputs counts as made from them still; of one that was not the next
    refresh makes another, as before.
    """
    settled = set(_settled(lake, settings, inputs, entry))
    if entry.what not in {one.what for one in in_force(lake)}:
        note(lake, entry)
    curation = Curation(lake, settings, inputs)
    found = []
    for kind, recipe in every(settings):
        made = standing(lake, name_of(kind, recipe))
        if made is not None:
            digest = wanted_digest(curation, kind, recipe) if made.name in settled else made.inputs_digest
            found.append(_without(made, curation, digest))
    return [made for made in found if made is not None]


def _settled(lake: Lake, settings: Settings, inputs: SideInputs, entry: Withdrawal) -> Iterator[str]:
    """Datasets that stand as the present inputs make them, this withdrawal apart: one that was killed has noted it."""
    now = in_force(lake)
    states = [Curation(lake, settings, inputs, w) for w in (now, tuple(one for one in now if one.what != entry.what))]
    for kind, recipe in every(settings):
        made = standing(lake, name_of(kind, recipe))
        if made is not None and made.inputs_digest in {wanted_digest(state, kind, recipe) for state in states}:
            yield made.name


def _without(made: Made, curation: Curation, digest: str) -> Made | None:
    """A dataset published again without what is withdrawn; None where it stands so already."""
    settings, covering = curation.settings, Covering(curation.withdrawals)
    version = dataset.read_version(made.path)
    about = list(dataset.provenance(version))
    gone = {row.row_id for row in about if _uses(row, covering)}
    if not gone and digest == made.inputs_digest:
        return None
    then = version.manifest["settings"]
    layouts = layouts_for(version.manifest["kind"], list(then["layouts"]))
    as_then = settings.model_copy(
        update={"splits": Splits.model_validate(then.get("splits", {})), "seed": then["seed"]}
    )
    places: dict[str, list[int]] = {}  # a mix may repeat rows
    for place, row in enumerate(about):
        places.setdefault(row.row_id, []).append(place)
    with drafting(curation.lake.home, made.name, [one.NAME for one in layouts]) as draft:
        finisher = Finisher(layouts, redactor(policy_of(settings)), curation.holdout)
        rows = finish(_once(version, gone), finisher, draft.folder)
        done = add_rows(draft, rows, layouts, as_then, version.manifest["kind"], places)
        written = set(done.uses.numbers)
        kept = {row.row_id: row for row in about}
        if kept.keys() - gone != written:
            raise LakeError(f"{made.name}: a row no longer passes the last gate; run `flywheel refresh` instead")
        fates = fates_table([_fate(fate, kept, written, covering) for fate in dataset.fates(version).to_pylist()])
        manifest = {
            **{name: version.manifest[name] for name in ("kind", "code", "warnings")},
            "inputs": {**version.manifest["inputs"], "digest": digest},
            "graders": {name: sorted(versions) for name, versions in sorted(done.graders.items())},
            "columns": done.columns,
            "facts": _facts(version.manifest["facts"], done, version.rows - len(draft)),
        }
        draft.write(partial(copied, curation.crew, policy_of(settings)))
        return published_as(draft.publish([fates], then, manifest, card, settings.versions.keep))


def _once(version: dataset.Version, gone: set[str]) -> Iterator[tuple[tuple[int, ...], Row]]:
    """The rows that stay, each once."""
    given = set(gone)
    for row in rows_of_version(version):
        if row.row_id not in given:
            given.add(row.row_id)
            yield (0,), row


def _facts(before: dict[str, Any], done: Published, gone: int) -> dict[str, Any]:
    """What the card says: what counts rows is counted again, what was decided over all rollouts stays as it was."""
    facts = {name: value for name, value in before.items() if name not in RowFacts.NAMES}
    if "redaction" in facts:
        turns = {"turns": done.turns, "turns_masked_for_placeholders": done.turns_masked}
        facts["redaction"] = {**facts["redaction"], **turns}
    facts |= {"kinds": dict(sorted(done.kinds.items())), "left_out": done.left_out}
    return {**facts, **done.about.as_facts(), "excised": facts.get("excised", 0) + gone}


def _uses(row: Provenance, covering: Covering) -> bool:
    """Whether a row was made from a rollout that is withdrawn; members of a pair share their grader."""
    runs = (row.run_id, row.rejected_run_id or row.run_id)
    return any(
        covering.first(run, trace, row.grader, row.grader_version) is not None
        for run, trace in zip(runs, row.trace_ids, strict=False)
    )


def _name(row: Provenance) -> str:
    runs = (row.run_id, row.rejected_run_id or row.run_id)
    return " > ".join(f"{run}/{trace}" for run, trace in zip(runs, row.trace_ids, strict=False))


def _fate(fate: dict[str, Any], rows: dict[str, Provenance], written: Set[str], covering: Covering) -> dict[str, Any]:
    """The fate of a rollout after the excision: out when its last row is."""
    ids = list(fate["row_ids"] or [])
    left = [row_id for row_id in ids if row_id in written]
    if left or not fate["kept"]:
        return {**fate, "row_ids": left}
    mine = rows[ids[0]]
    members = [(fate["run_id"], fate["trace_id"])]
    own = covering.first(*members[0], mine.grader, mine.grader_version)
    members += zip((mine.run_id, mine.rejected_run_id or mine.run_id), mine.trace_ids, strict=False)
    found = (covering.first(*member, mine.grader, mine.grader_version) for member in members)
    entry = next(one for one in found if one is not None)
    evidence = {**orjson.loads(fate["evidence"] or "{}"), "withdrawn": entry.what, "reason": entry.reason}
    if own is not None:
        stage, reason = Stage.CONVERTIBLE, "withdrawn"
    else:
        stage, reason = Stage.PAIRS, "not_selected_for_pair"
        evidence["pair"] = _name(mine)
    out = {"kept": False, "row_ids": [], "stage": stage.value, "reason": reason}
    return {**fate, **out, "evidence": canonical_json(evidence).decode()}
