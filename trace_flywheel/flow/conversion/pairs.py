"""Preference pairs straight from job folders: the decisions of `dpo_dataset`, over a lake for this call alone.

Pairs need every rollout of a task before the first can be chosen, so folders are ingested into a temporary lake, the
same decisions are taken on its index, and the chosen pairs are streamed from it.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from trace_flywheel.flow import curate, funnel
from trace_flywheel.flow.conversion.convert import Warn, check_output, check_rows
from trace_flywheel.flow.conversion.manifest import Tally
from trace_flywheel.flow.conversion.plan import plan_of
from trace_flywheel.flow.conversion.request import Request
from trace_flywheel.flow.conversion.rollout import Outcome, outcome_of_drop
from trace_flywheel.flow.fates import Fates
from trace_flywheel.flow.frame import graded, load_index
from trace_flywheel.flow.goldens import holdout_over
from trace_flywheel.flow.ingest import ingest
from trace_flywheel.flow.inputs import SideInputs, side_inputs
from trace_flywheel.flow.outputs import written
from trace_flywheel.flow.pieces import rows_of
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.publish import Finisher, layouts_for
from trace_flywheel.flow.uses import Uses
from trace_flywheel.flow.validate import has_calls
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.settings import Settings
from trace_flywheel.sources.reader import Run


def convert_pairs(request: Request, settings: Settings, workers: int, warn: Warn) -> Tally:
    """Write the pairs of the request's jobs, goldens of the settings held out. Raises `FlywheelError` as `convert`
    does; of the request only paths, output, format, `strict` and the counts asked for apply."""
    check_output(request)
    plan = plan_of(request.paths)
    tally = Tally(request.format)
    for base, problem in plan.problems:
        _tell_lost(outcome_of_drop(problem, base), tally, request.strict, warn)
    with tempfile.TemporaryDirectory(prefix="flywheel-") as home, written(request.out) as file:
        lake = Lake(Path(home))
        inputs = _inputs(plan.runs, settings)
        for result in ingest(plan.runs, lake, settings, inputs, workers or None, apart=True):
            # Of a run whose index was made the lost rollouts have fates of their own.
            if result.status == "quarantined" and result.sidecar is None:
                lost = Drop(Stage.READ, "unreadable_file", {"text": result.reason}, run_id=result.run_id)
                _tell_lost(outcome_of_drop(lost, result.run_id), tally, request.strict, warn)
        curated, finisher = _decided(lake, request.format, settings, inputs)
        uses = Uses()
        late: dict[int, Drop] = {}
        for members, row in rows_of(lake, curated, settings):
            lines = finisher.lines(row)
            if isinstance(lines, Drop):
                late |= dict.fromkeys(members, lines)
                continue
            uses.add(members, uses.numbers.add(row.row_id))
            for line in lines[request.format]:
                file.write(line + b"\n")
                tally.rows += 1
                tally.rows_with_calls += has_calls(orjson.loads(line))
        fates = Fates(curated, uses, late)
        for fate in fates.of(np.arange(len(fates))).to_pylist():
            _tell(fate, tally, request.strict, warn)
        check_rows(request, tally)
    return tally


def _inputs(runs: Sequence[Run], settings: Settings) -> SideInputs:
    inputs = side_inputs(runs, settings)
    if inputs.problems:
        bad = inputs.problems[0]
        raise FlywheelError(f"{bad.path}: cannot be read: {bad.evidence.get('text', bad.reason)}")
    return inputs


def _decided(lake: Lake, format: str, settings: Settings, inputs: SideInputs) -> tuple[funnel.Curated, Finisher]:
    index = graded(load_index(lake), inputs)
    holdout = holdout_over(lake, settings, inputs)
    curated = curate.pairs(index, funnel.attempts(index, settings), holdout, settings)
    return curated, Finisher(layouts_for("pair", [format]), redactor(policy_of(settings)), holdout)


def _tell_lost(outcome: Outcome, tally: Tally, strict: bool, warn: Warn) -> None:
    """Count what is no rollout that the index knows: a run, or what looked like one."""
    outcome.is_rollout = False
    assert outcome.refusal is not None
    told = f"{outcome.path}: {outcome.refusal.reason} ({outcome.refusal.evidence.get('text', '')})"
    if strict:
        raise FlywheelError(f"{told}; without --strict the rest is converted")
    warn(f"not converted: {told}")
    tally.add(outcome)


def _tell(fate: dict[str, Any], tally: Tally, strict: bool, warn: Warn) -> None:
    """Count one rollout; what could not be read is told, and in strict mode ends the conversion."""
    tally.rollouts += 1
    tally.converted += bool(fate["kept"])
    if fate["kept"]:
        return
    evidence = orjson.loads(fate["evidence"])
    name = f"{fate['run_id']}/{fate['trace_id']}"
    if fate["stage"] in (Stage.READ, Stage.REDACT):
        told = f"{name}: {fate['reason']}"
        if strict and fate["stage"] == Stage.READ:
            raise FlywheelError(f"{told}; without --strict the rest is converted")
        warn(f"not converted: {told}")
    drop = {key: fate[key] for key in ("run_id", "trace_id", "stage", "reason")}
    tally.drops.append({"rollout": name, **drop, "evidence": evidence})
