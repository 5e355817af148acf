"""The mix over a published SFT set: each rollout gets a class, then the largest set that holds the target is chosen.

It works on finished rows, so the index needs no classifier, and decides per rollout: all rows of one stay or go. The
class is the depth (by the classifier, by the work's evidence, or both) or any column of the rollouts. Rows keep their
ids: what is chosen is what was published.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa

from trace_flywheel.curation.mix import MixReport, MixShortageError, target_mix
from trace_flywheel.flow.depth.rows import UNCERTAIN, Classifier
from trace_flywheel.flow.mix_classes import by_column, by_depth
from trace_flywheel.lake.columns import table
from trace_flywheel.lake.dataset import ADDRESSES, Version, provenance
from trace_flywheel.lake.ledger import FATES_SCHEMA, ordered
from trace_flywheel.records.canonical import canonical_json
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.shortage import shortage_of
from trace_flywheel.settings import Mix

DEPTH = "depth"
COLUMNS = (
    "agent",
    "model",
    "suite",
    "task_id",
    "run_id",
    "job",
    "policy_version",
    "source_format",
    "grader",
    "verdict",
)
"""Columns of rollouts that a mix may balance."""
Address = tuple[str, str]


class Chosen(msgspec.Struct, frozen=True):
    """The class of every row, which rows stay, and what the mix did by class."""

    classes: dict[str, str]
    """By row id."""
    kept: frozenset[str]
    report: MixReport
    places: dict[str, list[int]] = {}
    """By row id where it stands in the output, once for each time."""
    disagreements: dict[str, int] = {}
    """Of classifier and trajectory, where both have an opinion: `classifier/trajectory`, rollouts."""
    uncertain: dict[str, dict[str, Any]] = {}
    """Guess and confidence of rows that took no part, by row id."""

    @property
    def weights(self) -> dict[str, float]:
        """By row id, in mode `weight`."""
        by_class = self.report.weight or {}
        return {row_id: by_class[self.classes[row_id]] for row_id in self.kept} if by_class else {}


class _Rollout(msgspec.Struct):
    """What is chosen as a whole."""

    row_ids: list[str]
    label: str
    size: int = 0


def choose(version: Version, model: Classifier, mix: Mix, seed: int, frame: pd.DataFrame) -> Chosen:
    """Give the rollouts of a version their classes and choose among them. `frame` holds the columns of rollouts.

    Raises `FlywheelError` where `shortage = fail` and a class is short, and for a column that nobody has.
    """
    owners: dict[str, Address] = {p.row_id: (p.run_id, p.trace_ids[0]) for p in provenance(version, ADDRESSES)}
    if mix.column == DEPTH:
        found = by_depth(version, model, mix)
    else:
        found = by_column(version, _values(mix.column, frame, owners))
    rollouts: dict[Address, _Rollout] = {}
    for row_id, label, size in zip(found.row_ids, found.labels, found.sizes, strict=True):
        own = rollouts.setdefault(owners[row_id], _Rollout([], label))
        own.row_ids.append(row_id)
        own.size += size
    out = {name for own in rollouts.values() if own.label == UNCERTAIN for name in own.row_ids}
    out = out if mix.column == DEPTH and mix.uncertain == "exclude" else set()
    part = [own for own in rollouts.values() if own.row_ids[0] not in out]
    shortage, times = shortage_of(mix.shortage)
    sizes = [own.size for own in part] if mix.unit == "supervised_tokens" else None
    ids = [own.row_ids[0] for own in part]
    try:
        of = [own.label for own in part]
        mixed = target_mix(of, ids, mix.target, shortage, seed, times, sizes, mix.mode)
    except MixShortageError as error:
        raise FlywheelError(str(error)) from None
    places: dict[str, list[int]] = {}
    for at, row_id in enumerate(row_id for i in mixed.order.tolist() for row_id in part[i].row_ids):
        places.setdefault(row_id, []).append(at)
    classes = {row_id: own.label for own in rollouts.values() for row_id in own.row_ids}
    return Chosen(
        classes,
        frozenset(places),
        mixed.report,
        places,
        dict(sorted(found.disagreements.items())),
        {row_id: found.unsure.get(row_id, {}) for row_id in sorted(out)},
    )


def _values(column: str, frame: pd.DataFrame, owners: Mapping[str, Address]) -> dict[str, str]:
    """What stands in a column of the rollouts, by row id."""
    if column not in COLUMNS:
        raise FlywheelError(f"mix.column: {column!r} is none of {DEPTH}, {', '.join(COLUMNS)}")
    wanted = set(owners.values())
    values = {
        (run, trace): "none" if pd.isna(value) else str(value)
        for run, trace, value in zip(frame["run_id"], frame["trace_id"], frame[column], strict=True)
        if (run, trace) in wanted
    }
    return {row_id: values[owner] for row_id, owner in owners.items()}


def loss(chosen: Chosen) -> str | None:
    """Why the mix is empty although there are rows to choose from; None where it is not."""
    report = chosen.report
    if not report.lost and not (chosen.uncertain and not chosen.kept):
        return None
    if not report.lost:
        return "every row is uncertain: the mix is empty; lower mix.min_confidence, or set mix.uncertain"
    return f"{report.limiting} has no rows: the mix is empty; set mix.target or mix.shortage"


def mixed_fates(
    fates: Iterable[pa.Table],
    chosen: Chosen,
    written: Container[str],
    late: Mapping[str, Drop],
    target: Mapping[str, float],
) -> Iterator[pa.Table]:
    """The fates of the SFT set, with those of its kept rollouts that lost their last row to the mix; piece by piece,
    as they come: in their order, no two of one trace in two pieces.

    `written`: ids of the rows that were published. `late`: by row id, drops of the publication itself.
    """
    import pyarrow.compute as pc

    for piece in fates:
        kept = [
            {**fate, "row_ids": left} if left else _dropped(fate, chosen, late, target)
            for fate in piece.filter(piece["kept"]).to_pylist()
            for left in [[row_id for row_id in fate["row_ids"] if row_id in written]]
        ]
        yield ordered(pa.concat_tables([piece.filter(pc.invert(piece["kept"])), table(kept, FATES_SCHEMA)]))


def _dropped(
    fate: Mapping[str, Any], chosen: Chosen, late: Mapping[str, Drop], target: Mapping[str, float]
) -> dict[str, Any]:
    row_id = fate["row_ids"][0]
    label = chosen.classes[row_id]
    drop = late.get(row_id)
    if drop is None and row_id in chosen.uncertain:
        drop = Drop(Stage.MIX, "uncertain_class", chosen.uncertain[row_id])
    if drop is None:
        reason = "not_in_target" if target.get(label) == 0 else "mix_surplus"
        evidence = {"class": label, "kept": chosen.report.kept[label], "supply": chosen.report.supply[label]}
        drop = Drop(Stage.MIX, reason, evidence)
    return {
        **fate,
        "kept": False,
        "row_ids": [],
        "stage": drop.stage.value,
        "reason": drop.reason,
        "evidence": canonical_json(drop.evidence).decode(),
    }
