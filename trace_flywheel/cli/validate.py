"""`flywheel validate`: a trainer file's faults, all of them, each with its line."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A JSONL file of trainer rows.")],
    format: Annotated[str, typer.Option("--format", help="The rows' layout.")] = "prime-sft",
    require_tool_calls: Annotated[
        bool, typer.Option("--require-tool-calls", help="Fail where a row calls no tool, or there is no row.")
    ] = False,
    expected_rows: Annotated[int | None, typer.Option("--expected-rows", min=0, help="Fail on another number.")] = None,
    source_jobs: Annotated[
        list[Path] | None, typer.Option("--source-jobs", help="BenchFlow jobs that the rows came from: their health.")
    ] = None,
    source_canonical_selection: Annotated[
        Path | None,
        typer.Option("--source-canonical-selection", help="Count its trials, and look at them instead of all."),
    ] = None,
    task_manifest: Annotated[
        Path | None, typer.Option("--task-manifest", help="A JSON object with a list `tasks`: count them.")
    ] = None,
    require_llm_trajectory: Annotated[
        bool, typer.Option("--require-llm-trajectory", help="Fail where a source trial has no whole capture.")
    ] = False,
) -> None:
    from trace_flywheel.flow.validate import FileCheck
    from trace_flywheel.trainers.registry import layouts

    if format not in layouts():
        raise typer.BadParameter(f"{format!r} is none of {', '.join(layouts())}", param_hint="--format")
    check = FileCheck(file, layouts()[format])
    faults = 0
    for fault in check:
        faults += 1
        print(f"{file}:{fault.line}: {fault.text}", file=sys.stderr)
    if expected_rows is not None and check.rows != expected_rows:
        faults += 1
        print(f"{file}: row count {check.rows} != expected {expected_rows}", file=sys.stderr)
    if require_tool_calls and (check.rows_with_calls < check.rows or not check.rows):
        faults += 1
        text = f"not all trainer rows contain tool calls: {check.rows_with_calls} / {check.rows}"
        print(f"{file}: {text}", file=sys.stderr)
    told, damaged = _sources(source_jobs, source_canonical_selection, task_manifest)
    if require_llm_trajectory and damaged:
        faults += 1
        listed = [*damaged, "source jobs contain missing/malformed llm_trajectory.jsonl"]
        print("\n".join(listed), file=sys.stderr)
    elif require_llm_trajectory and "source_health" not in told:
        print("--require-llm-trajectory: no --source-jobs, so no capture was looked at", file=sys.stderr)
    if faults:
        raise typer.Exit(1)
    answer = {"format": format, "ok": True, "rows": check.rows, "rows_with_tool_calls": check.rows_with_calls}
    if counts := check.counts.as_json():
        answer |= {"path": str(file), **counts}
    print(json.dumps({**answer, **told}, sort_keys=True))


def _sources(jobs: list[Path] | None, selection: Path | None, tasks: Path | None) -> tuple[dict[str, Any], list[str]]:
    """What is told of the sources, under BenchFlow's names, and the trials without a whole capture."""
    told: dict[str, Any] = {}
    damaged: list[str] = []
    if selection is not None:
        from trace_flywheel.flow.conversion.selection import selected_trials

        selected = list(selected_trials(selection))
        told["canonical_selected_rows"] = len(selected)
        jobs = selected if jobs is not None else None
    if jobs is not None:
        from trace_flywheel.flow.conversion.source_health import source_health
        from trace_flywheel.settings import load_settings

        health = source_health(jobs, int(load_settings().ingest.max_line_mb * 1e6))
        told["source_health"], damaged = health.counts(), health.damaged
    if tasks is not None:
        from trace_flywheel.flow.conversion.source_health import task_manifest_rows

        told["task_manifest_rows"] = task_manifest_rows(tasks)
    return told, damaged
