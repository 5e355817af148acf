"""`flywheel demo`: sample job folders, the whole flow in Dagster, the funnel, and where everything is."""

import sys
from typing import Any

from trace_flywheel.cli.options import Config, Home, program, settings_of
from trace_flywheel.cli.refresh import refreshed


def demo(home: Home = None, config: Config = None) -> None:
    from trace_flywheel.sample.write import write_sample

    own = settings_of(home, config)
    folder = own.home / "demo-runs"
    write_sample(folder)
    print(f"sample job folders in {folder}", file=sys.stderr)
    document = refreshed(own.model_copy(update={"roots": (folder,)})).document
    for line in funnel(document):
        print(line)
    runs = document["runs"]
    print(f"\n{runs['found']} runs: {runs['ingested']} ingested now, {runs['unchanged']} unchanged")
    print(f"datasets   {own.home / 'datasets'}")
    suffix = "" if home is None else f" --home {home}"
    print(f"UI         {program()} ui{suffix}")
    print(f"your runs  {program()} refresh --root DIR --home OTHER   (this home keeps the sample's rows)")


def funnel(document: dict[str, Any]) -> list[str]:
    """Lines of a table: of every dataset each stage that dropped something: in, kept, dropped, reasons."""
    from trace_flywheel.lake.ledger import Ledger

    lines = []
    for name, counts in document["ledger"].items():
        ledger = Ledger(counts["in"], counts["kept"], counts["dropped"])
        lines.append(f"\n{name}: {document['datasets'][name]['rows']} rows")
        lines.append(f"  {'stage':<16}{'in':>6}{'kept':>6}{'dropped':>9}  reasons")
        for step in ledger.funnel():
            why = ", ".join(f"{reason} {n}" for reason, n in sorted(step.dropped.items()))
            lines.append(f"  {step.stage:<16}{step.entered:>6}{step.kept:>6}{step.entered - step.kept:>9}  {why}")
    return lines
