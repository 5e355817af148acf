"""The depth mix over a published SFT set: each row labelled by its prompt, then the largest set that holds the target.

It works on finished rows, so the index needs no classifier, and decides per row; a rollout is dropped when its last row
is. Rows keep their ids: what is chosen is what was published.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson

from trace_flywheel.curation.depth import DepthModel, depth_prompt
from trace_flywheel.curation.mix import MixReport, MixShortageError, target_mix
from trace_flywheel.lake.dataset import Version, lines
from trace_flywheel.records.canonical import canonical_json
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.message import Message
from trace_flywheel.settings import Mix

BATCH = 2_000
"""Prompts that are labelled at once."""


class Chosen(msgspec.Struct, frozen=True):
    """The class of every row, which rows stay, and what the mix did by class."""

    classes: dict[str, str]
    """By row id."""
    kept: frozenset[str]
    report: MixReport


def choose(version: Version, model: DepthModel, mix: Mix, seed: int) -> Chosen:
    """Label the rows of a version and choose among them. `FlywheelError` where `shortage = fail` and one is short."""
    classes: dict[str, str] = {}
    batch: dict[str, str] = {}
    for line in lines(version):
        row = orjson.loads(line)
        turns = [Message("user", m["content"]) for m in row["messages"] if m["role"] == "user"]
        batch[row["row_id"]] = depth_prompt(turns)
        if len(batch) >= BATCH:
            classes |= _labelled(batch, model)
            batch = {}
    classes |= _labelled(batch, model)
    ids = list(classes)
    try:
        mixed = target_mix(list(classes.values()), ids, mix.target, mix.shortage, seed)
    except MixShortageError as error:
        raise FlywheelError(str(error)) from None
    return Chosen(classes, frozenset(ids[i] for i in mixed.order.tolist()), mixed.report)


def told(report: MixReport) -> tuple[str, ...]:
    """Warnings: a mix that is empty although there are rows to choose from, and the class that made it so."""
    if report.total or not sum(report.supply.values()):
        return ()
    return (f"{report.limiting} has no rows: the mix is empty; set mix.target or mix.shortage",)


def _labelled(prompts: Mapping[str, str], model: DepthModel) -> dict[str, str]:
    return dict(zip(prompts, model.label(list(prompts.values()))[0], strict=True)) if prompts else {}


def mixed_fates(
    fates: Sequence[Mapping[str, Any]],
    chosen: Chosen,
    written: set[str],
    late: Mapping[str, Drop],
    target: Mapping[str, float],
) -> list[dict[str, Any]]:
    """The fates of the SFT set, with those of its kept rollouts that lost their last row to the mix.

    `written`: ids of the rows that were published. `late`: by row id, drops of the publication itself.
    """
    return [
        {**fate, "row_ids": left} if left or not fate["kept"] else _dropped(fate, chosen, late, target)
        for fate in fates
        for left in [[row_id for row_id in fate["row_ids"] if row_id in written]]
    ]


def _dropped(
    fate: Mapping[str, Any], chosen: Chosen, late: Mapping[str, Drop], target: Mapping[str, float]
) -> dict[str, Any]:
    row_id = fate["row_ids"][0]
    label = chosen.classes[row_id]
    drop = late.get(row_id)
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
