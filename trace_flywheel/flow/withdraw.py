"""Withdrawing rollouts: first the rows that would change, then the note in the lake that later curations obey.

*recompute*: the next refresh decides as if the rollouts had never been: others may take their place.
*excise*: the newest versions are published again at once without the rows that used them; nothing takes their place,
and no statistic moves until other inputs change. In both, what is withdrawn stays out of every later version.
"""

from collections.abc import Iterator

import msgspec

from trace_flywheel.flow.curation import Curation, wanted_digest
from trace_flywheel.flow.datasets import decided
from trace_flywheel.flow.export import rows_of_version
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.names import every, name_of
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.publish import Finisher, layouts_for, write_rows
from trace_flywheel.flow.standing import Made, published_as, standing
from trace_flywheel.lake import dataset
from trace_flywheel.lake.card import card
from trace_flywheel.lake.draft import drafting
from trace_flywheel.lake.ledger import fates_table
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.canonical import canonical_json
from trace_flywheel.records.fate import Drop, Stage
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
    lake: Lake, settings: Settings, inputs: SideInputs, after: tuple[Withdrawal, ...], excise: Withdrawal | None
) -> Iterator[Difference]:
    """Every published dataset against what it would be under the withdrawals `after`, or without what one covers.

    A mix is told by what its own rows lose: which others come in is known when it is drawn.
    """
    curation = Curation(lake, settings, inputs, after)
    for kind, recipe in every(settings):
        made = standing(lake, name_of(kind, recipe))
        if made is None:
            continue
        before = list(dataset.provenance(dataset.read_version(made.path)))
        if excise is not None or kind == "mix":
            left = {_name(row) for row in before if not any(_uses(row, one) for one in after)}
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


def excised(lake: Lake, settings: Settings, inputs: SideInputs, entry: Withdrawal) -> Iterator[Made]:
    """Publish the newest version of every dataset again without the rows that use what the entry covers.

    Call it when the withdrawal is in force: the versions then count as made from the present inputs.
    """
    curation = Curation(lake, settings, inputs)
    for kind, recipe in every(settings):
        made = standing(lake, name_of(kind, recipe))
        if made is None:
            continue
        version = dataset.read_version(made.path)
        names = list(version.manifest["settings"]["layouts"])
        layouts = layouts_for(version.manifest["kind"], names)
        then = version.manifest["settings"]
        as_then = settings.model_copy(
            update={"splits": Splits.model_validate(then.get("splits", {})), "seed": then["seed"]}
        )
        with drafting(lake.home, made.name, [one.NAME for one in layouts]) as draft:
            rows = ((((0,), row)) for row in rows_of_version(version) if not _uses(row.provenance, entry))
            finisher = Finisher(layouts, redactor(policy_of(settings)), curation.holdout)
            done = write_rows(draft, rows, finisher, as_then, version.manifest["kind"])
            written = {row_id for ids in done.row_ids.values() for row_id in ids}
            kept = {p.row_id: p for p in dataset.provenance(version)}
            if any(row_id not in written and not _uses(p, entry) for row_id, p in kept.items()):
                raise LakeError(f"{made.name}: a row no longer passes the last gate; run `flywheel refresh` instead")
            fates = [_fate(fate, kept, written, entry) for fate in dataset.fates(version).to_pylist()]
            table = fates_table(fates)
            facts = {**made.facts, **done.about.as_facts(), "excised": len(kept) - len(written)}
            about = {name: version.manifest[name] for name in ("kind", "code", "warnings")}
            inputs_then = {**version.manifest["inputs"], "digest": wanted_digest(curation, kind, recipe)}
            graders = {name: sorted(versions) for name, versions in sorted(done.graders.items())}
            manifest = {
                **about,
                "inputs": inputs_then,
                "graders": graders,
                "columns": done.columns,
                "facts": {**version.manifest["facts"], **facts},
            }
            hashed = version.manifest["settings"]
            fresh = draft.publish(table, hashed, manifest, card, settings.versions.keep)
        yield published_as(fresh)


def _uses(row: Provenance, entry: Withdrawal) -> bool:
    """Whether a row was made from a rollout that the entry covers; members of a pair share their grader."""
    runs = (row.run_id, row.rejected_run_id or row.run_id)
    return any(
        entry.covers(run, trace, row.grader, row.grader_version)
        for run, trace in zip(runs, row.trace_ids, strict=False)
    )


def _name(row: Provenance) -> str:
    runs = (row.run_id, row.rejected_run_id or row.run_id)
    return " > ".join(f"{run}/{trace}" for run, trace in zip(runs, row.trace_ids, strict=False))


def _fate(
    fate: dict[str, object], rows: dict[str, Provenance], written: set[str], entry: Withdrawal
) -> dict[str, object]:
    """The fate of a rollout after the excision: out when its last row is."""
    ids = list(fate["row_ids"] or [])  # type: ignore[call-overload]  # a list column
    left = [row_id for row_id in ids if row_id in written]
    if left or not fate["kept"]:
        return {**fate, "row_ids": left}
    mine = rows[ids[0]]
    covered = entry.covers(str(fate["run_id"]), str(fate["trace_id"]), mine.grader, mine.grader_version)
    evidence = {"withdrawn": entry.what, "reason": entry.reason}
    drop = (
        Drop(Stage.CONVERTIBLE, "withdrawn", evidence)
        if covered
        else Drop(Stage.PAIRS, "not_selected_for_pair", {**evidence, "pair": _name(mine)})
    )
    out = {"kept": False, "row_ids": [], "stage": drop.stage.value, "reason": drop.reason}
    return {**fate, **out, "evidence": canonical_json(drop.evidence).decode()}
