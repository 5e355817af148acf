"""`flywheel sources`: what would be read below a folder, and what could not be. Writes nothing."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from trace_flywheel.cli.options import AsJson, Config, settings_of


def sources(
    folder: Annotated[Path, typer.Argument(help="Folder that holds job folders, at any depth, or one of them.")],
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    document = _look(folder, config)
    if as_json:
        print(json.dumps(document, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    # Two runs that are cut after their common folder are told apart by nobody.
    table = Table(Column("run", overflow="fold"), "format", "finished", "rollouts", "problems", box=None)
    for run in document["runs"]:
        problems = ", ".join(f"{reason} {count}" for reason, count in run["problems"].items())
        table.add_row(
            escape(run["run_id"]), run["format"], "yes" if run["finished"] else "no", str(run["rollouts"]), problems
        )
    # A run id that is cut in a pipe or a log names nothing.
    console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 200)
    console.print(table)
    for problem in document["problems"]:
        console.print(f"{problem['path']}: {problem['reason']}: {problem['text']}", markup=False, highlight=False)
    total = sum(run["rollouts"] for run in document["runs"])
    console.print(f"{len(document['runs'])} runs, {total} rollouts, {len(document['problems'])} problems")


def _look(folder: Path, config: Path | None) -> dict[str, Any]:
    from trace_flywheel.flow.inputs import golden_paths
    from trace_flywheel.flow.policy import policy_of
    from trace_flywheel.records.fate import Drop
    from trace_flywheel.redaction.redact import redactor
    from trace_flywheel.sources.discover import discover, read_unit, units
    from trace_flywheel.sources.goldens import read_goldens
    from trace_flywheel.sources.reader import ReadOptions, printable

    settings = settings_of(None, config)
    options = ReadOptions(
        max_line_bytes=int(settings.ingest.max_line_mb * 1_000_000),
        pass_reward=settings.grading.pass_reward,
        verdict_map=settings.grading.verdict_map,
        exchanges=False,
    )
    rules = redactor(policy_of(settings))
    found = discover([folder])
    runs: list[dict[str, Any]] = []
    lines = [item for path in golden_paths(found.runs, settings) for item in read_goldens(path)]
    faults = [item for item in (*found.problems, *lines) if isinstance(item, Drop)]
    problems = [(p.path or "", p.reason, p.evidence) for p in map(rules.safe, faults)]
    for run in found.runs:
        rollouts, reasons = 0, Counter[str]()
        for unit in units(run):
            for item in read_unit(run, unit, options):
                if isinstance(item, Drop):
                    reasons[item.reason] += 1
                    item = rules.safe(item)
                    problems.append((item.path or rules.mask(printable(unit.relative)), item.reason, item.evidence))
                else:
                    rollouts += 1
        runs.append(
            {
                "run_id": rules.mask(run.run_id),
                "format": run.format,
                "path": rules.mask(printable(str(run.path))),
                "finished": run.finished,
                "rollouts": rollouts,
                "problems": dict(sorted(reasons.items())),
            }
        )
    listed = [{"path": path, "reason": reason, "text": _words(evidence)} for path, reason, evidence in problems]
    return {"runs": runs, "problems": listed}


def _words(evidence: dict[str, Any]) -> str:
    if isinstance(text := evidence.get("text"), str):
        place = next((f"{key} {evidence[key]}: " for key in ("line", "row") if evidence.get(key)), "")
        return place + text
    return ", ".join(f"{key} {value}" for key, value in sorted(evidence.items()))
