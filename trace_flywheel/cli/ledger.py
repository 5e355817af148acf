"""`flywheel ledger`: the funnel of a dataset, stage by stage."""

import json
from typing import Annotated

import typer

from trace_flywheel.cli.options import AsJson, Config, Home, settings_of, tell_refused


def ledger(
    dataset: Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="Without a version: the newest.")],
    as_json: AsJson = False,
    home: Home = None,
    config: Config = None,
) -> None:
    from trace_flywheel.flow.standing import asked_version
    from trace_flywheel.lake.dataset import fates
    from trace_flywheel.lake.ledger import ledger_of

    settings = settings_of(home, config)
    version = asked_version(settings.home, dataset)
    tell_refused(settings.home, version.name)
    found = ledger_of(fates(version))
    steps = found.funnel()
    warnings: list[str] = version.manifest["facts"].get("warnings", [])
    if as_json:
        funnel = [{"stage": s.stage, "in": s.entered, "kept": s.kept, "dropped": s.dropped} for s in steps]
        document = {
            "dataset": version.name,
            "version": version.version,
            **found.as_json(),
            "funnel": funnel,
            "warnings": warnings,
        }
        print(json.dumps(document, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("stage", "in", "kept", "dropped", box=None)
    for step in steps:
        reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(step.dropped.items()))
        table.add_row(step.stage, str(step.entered), str(step.kept), reasons)
    console = Console(soft_wrap=True, width=200)
    console.print(f"{version.name} {version.version}: {version.rows} rows", highlight=False)
    console.print(table)
    for warning in warnings:
        console.print(f"warning: {warning}", highlight=False)
    console.print(f"{found.entered} rollouts in, {found.kept} kept", highlight=False)
