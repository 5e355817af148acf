"""A file's rows at target shares of a column, by default of depth.

The mix decides per row or per rollout, by number or by supervised tokens; what it chooses is written as it stood, and
in mode `weight` every row with its `mix_weight`. `posttrainllm` is the original's down-sampling, its numbers and its
order.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import orjson

from trace_flywheel.curation.depth import short_label
from trace_flywheel.curation.downsample import downsample
from trace_flywheel.curation.mix import MixReport, MixShortageError, Mode, target_mix
from trace_flywheel.curation.supervised_tokens import supervised_tokens
from trace_flywheel.flow.atomic import replaced
from trace_flywheel.flow.depth.rows import UNCERTAIN, FileRow, id_of, owner_of, rows_of
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.shortage import Shortage
from trace_flywheel.redaction.redact import Redactor

DEPTH = "reasoning_depth"


class MixOf(msgspec.Struct, frozen=True):
    """What `flywheel depth filter` was asked for."""

    target: dict[str, float]
    policy: Literal["flywheel", "posttrainllm"] = "flywheel"
    shortage: Shortage = "shrink"
    upsample: int = 1
    mode: Mode = "drop"
    uncertain: Literal["exclude", "keep", "other"] = "exclude"
    unit: Literal["rows", "rollouts", "supervised_tokens"] = "rows"
    """`supervised_tokens`: rollouts, each counting as many as it teaches."""
    column: str = DEPTH
    seed: int = 42


def filter_rows(path: Path, out: Path, asked: MixOf, clean: Redactor | None = None) -> dict[str, Any]:
    """Write the chosen rows, redacted by `clean`; tell supply, shares, kept, discarded and the limiting class.

    Raises `FlywheelError` with nothing written for a row without the column, for a class that is too scarce under
    `fail`, and where nothing would be left (the original writes an empty file).
    """
    rows = list(rows_of(path, clean))
    classes = [_class_of(path, row, asked) for row in rows]
    with replaced(out) as file:
        if asked.policy == "posttrainllm":
            chosen = downsample(classes, asked.target, asked.seed)
            order: Sequence[int] = chosen.order
            told: dict[str, Any] = {
                "supply": chosen.supply,
                "share": chosen.share,
                "kept": chosen.kept,
                "feasible": chosen.feasible,
            }
            told |= {"discarded": {name: n - chosen.kept[name] for name, n in chosen.supply.items()}}
        else:
            placed, report, left_out = _mixed(rows, classes, asked)
            order = [i for i, _ in placed]
            told = {**report.as_dict(), "unit": asked.unit, "mode": asked.mode, "uncertain_left_out": left_out}
            if not order:
                raise FlywheelError(
                    f"{path}: no row of class {report.limiting!r}, so no set holds the target; add rows of it, take it "
                    "out of --target-mix, or say --shortage renormalize. Nothing written"
                )
        weight = told.get("weight")
        if weight is None:
            file.writelines(rows[i].data + b"\n" for i in order)
        else:
            file.writelines(_weighted(rows[i], weight[of]) + b"\n" for i, of in placed)
    return {"rows": len(rows), "written": len(order), **told}


def _weighted(row: FileRow, weight: float) -> bytes:
    return orjson.dumps({**row.value, "mix_weight": round(weight, 9)})


def _class_of(path: Path, row: FileRow, asked: MixOf) -> str:
    value = row.value.get(asked.column)
    if asked.column != DEPTH:
        if value is None:
            raise FlywheelError(f"{path}:{row.number}: no {asked.column!r}; name a column that every row has")
        return value if isinstance(value, str) else str(value)
    if asked.policy == "posttrainllm":
        return _short_or_other(value)
    if value == UNCERTAIN:
        return "other" if asked.uncertain == "other" else UNCERTAIN
    try:
        return short_label(value if isinstance(value, str) else "")
    except ValueError:
        raise FlywheelError(
            f"{path}:{row.number}: {asked.column} is {value!r}; label the rows with `flywheel depth score` first"
        ) from None


def _short_or_other(value: Any) -> str:
    try:
        return short_label(value if isinstance(value, str) else "")
    except ValueError:
        return "other"


def _mixed(
    rows: Sequence[FileRow], classes: Sequence[str], asked: MixOf
) -> tuple[list[tuple[int, str]], MixReport, int]:
    """The rows chosen, in output order, with the class that each counts for; the report, and how many uncertain units
    took no part. A rollout has the class of its first row, and stays or goes whole."""
    members: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        owner = f"row {row.number}" if asked.unit == "rows" else owner_of(row.value, row.number)
        members.setdefault(owner, []).append(i)
    unsure = asked.column == DEPTH and asked.uncertain == "exclude"
    units = [own for own in members.values() if not unsure or classes[own[0]] != UNCERTAIN]
    seen: dict[str, int] = {}
    ids = []
    for own in units:
        name = id_of(rows[own[0]].value)
        seen[name] = seen.get(name, 0) + 1
        ids.append(f"{name}#{seen[name]}")  # equal rows stay apart; which of them is drawn does not matter
    sizes = [sum(_tokens(rows[i]) for i in own) for own in units] if asked.unit == "supervised_tokens" else None
    of = [classes[own[0]] for own in units]
    try:
        mix = target_mix(of, ids, asked.target, asked.shortage, asked.seed, asked.upsample, sizes, asked.mode)
    except MixShortageError as error:
        raise FlywheelError(str(error).replace("mix.shortage = shrink", "--shortage shrink")) from None
    placed = [(i, of[unit]) for unit in mix.order.tolist() for i in units[unit]]
    return placed, mix.report, len(members) - len(units)


def _tokens(row: FileRow) -> int:
    messages = row.value.get("messages")
    return supervised_tokens([m for m in messages if isinstance(m, dict)]) if isinstance(messages, list) else 1
