"""Checks: blocking ones are post-conditions that never fail in health, warnings say what a person should look at.

The steps themselves fail closed; a failed check cannot stop a run that is not its own. So the checks read the finished
bytes once more and speak for the whole lake, never for one partition: a later result would hide an earlier one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from trace_flywheel.flow import apart
from trace_flywheel.flow.audit import PROMISES, shown
from trace_flywheel.flow.home import lake_of
from trace_flywheel.flow.ingest_tasks import GRADED, INDEX
from trace_flywheel.flow.names import ADVANTAGES, Kind, refusals_of
from trace_flywheel.lake.dataset import find_version, names
from trace_flywheel.lake.quarantine import quarantines
from trace_flywheel.orchestration import helper, order
from trace_flywheel.orchestration.metadata import table
from trace_flywheel.orchestration.once import passes
from trace_flywheel.orchestration.resources import SettingsResource

ON_TARGET = 0.02
"""Share of the set by which a class of the mix may miss its target, or one row: quotas are whole rows."""


@dg.asset_check(
    asset=INDEX, blocking=True, description="Of every run: rollouts read = indexed + dropped with a reason."
)
def ledger_conserves(settings: SettingsResource) -> dg.AssetCheckResult:
    lake = lake_of(settings.load())
    read = {s.run_id: s.counts.entered for s in lake.sidecars(GRADED)}
    faults = [
        f"{s.run_id}: {read.get(s.run_id)} read, {s.counts.kept} indexed, {s.counts.n_dropped} dropped"
        for s in lake.sidecars(INDEX)
        if not read.get(s.run_id) == s.counts.entered == s.counts.kept + s.counts.n_dropped
    ]
    return dg.AssetCheckResult(passed=not faults, metadata={"faults": shown(faults), "runs": len(read)})


@dg.asset_check(asset=INDEX, description="Folders that gave nothing, with the reason. Mend or remove them.")
def nothing_quarantined(settings: SettingsResource) -> dg.AssetCheckResult:
    broken = quarantines(lake_of(settings.load()))
    rows = [(q.run_id, q.reason, q.attempts) for q in broken]
    return dg.AssetCheckResult(
        passed=not broken,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"quarantined": table(("run", "reason", "tries"), rows)},
    )


@dg.asset_check(asset=ADVANTAGES, blocking=True, description="The advantages of every group add up to zero.")
def advantages_sum_to_zero(context: dg.AssetCheckExecutionContext, settings: SettingsResource) -> dg.AssetCheckResult:
    tree = settings.load()
    groups, faults = helper.over_all(context.run.run_id, tree, apart.uneven_groups, tree)
    return dg.AssetCheckResult(passed=not faults, metadata={"groups": groups, "faults": shown(faults)})


def promises_of(name: str, kind: Kind) -> dg.AssetChecksDefinition:
    """All promises of a published dataset, kept by one reading of its files."""

    @dg.multi_asset_check(
        name=f"{name}_promises",
        specs=[
            dg.AssetCheckSpec(promise, asset=name, blocking=True, description=text)
            for promise, text in PROMISES.items()
        ],
        op_tags=order.looked_at(kind),
    )
    def check(context: dg.AssetCheckExecutionContext, settings: SettingsResource) -> Iterator[dg.AssetCheckResult]:
        tree = settings.load()
        if name not in names(tree.home) and lake_of(tree).current(refusals_of(name)) is not None:
            for promise in PROMISES:  # nothing was published, so nothing is broken; `mix_on_target` says why
                yield dg.AssetCheckResult(asset_key=name, check_name=promise, passed=True, metadata={"rows": 0})
            return
        run_id = context.run.run_id
        audited = helper.over_all(run_id, tree, apart.audited, passes.of(run_id, tree), name)
        for promise, faults in audited.faults.items():
            yield dg.AssetCheckResult(
                asset_key=name,
                check_name=promise,
                passed=not faults,
                metadata={"version": audited.version, "rows": audited.rows, "faults": shown(faults)},
            )

    return check


def no_task_collapsed(name: str) -> dg.AssetChecksDefinition:
    """Whether near-duplicate removal took most of a task: then a template may have made different rows alike."""

    @dg.asset_check(
        asset=name,
        name="no_task_collapsed",
        op_tags=order.looked_at("sft"),
        description="No task of four or more rows lost more than `dedup.alarm_share` of them to near-duplicates.",
    )
    def check(settings: SettingsResource) -> dg.AssetCheckResult:
        lost = find_version(settings.load().home, name).manifest["facts"].get("collapsed", {})
        rows = [(task, of, gone) for task, (of, gone) in lost.items()]
        return dg.AssetCheckResult(
            passed=not rows,
            severity=dg.AssetCheckSeverity.WARN,
            metadata={"tasks": table(("task", "rows", "lost"), rows)},
        )

    return check


def mix_on_target(name: str) -> dg.AssetChecksDefinition:
    """Whether the mix reached its shares, and which class ended its growth."""

    @dg.asset_check(
        asset=name,
        name="mix_on_target",
        description="Each class within a row, or two points, of its share.",
        op_tags=order.looked_at("mix"),
    )
    def check(settings: SettingsResource) -> dg.AssetCheckResult:
        lake = lake_of(settings.load())
        if (refusal := lake.current(refusals_of(name))) is not None:
            return dg.AssetCheckResult(
                passed=False, severity=dg.AssetCheckSeverity.WARN, metadata={"refused": str(refusal.counts["reason"])}
            )
        report = find_version(lake.home, name).manifest["facts"]["mix"]
        kept = _in_unit(report)
        total = sum(kept[label] for label in report["share"])
        rows = [
            (
                label,
                report["supply"][label],
                report["kept"][label],
                f"{share:.0%}",
                _share(kept[label], total),
            )
            for label, share in report["share"].items()
        ]
        room = max(1.0, ON_TARGET * total)
        off = [label for label, share in report["share"].items() if abs(kept[label] - share * total) > room]
        return dg.AssetCheckResult(
            passed=total > 0 and not off,  # a share of nothing is missed
            severity=dg.AssetCheckSeverity.WARN,
            metadata={
                "classes": table(("class", "rows to choose from", "kept", "target", "reached"), rows),
                "limiting": report["limiting"] or "none",
            },
        )

    return check


def _in_unit(report: Mapping[str, Any]) -> dict[str, float]:
    """What stands in the set by class: rollouts, or tokens where the mix weighs those, each by its weight."""
    kept, weight = report.get("kept_size") or report["kept"], report.get("weight")
    return {label: n * (weight[label] if weight else 1) for label, n in kept.items()}


def _share(kept: float, total: float) -> str:
    return f"{kept / total:.0%}" if total else "no rows"


INGEST_CHECKS: Sequence[dg.AssetChecksDefinition] = (ledger_conserves, nothing_quarantined)
