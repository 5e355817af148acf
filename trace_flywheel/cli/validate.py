"""`flywheel validate`: a trainer file's faults, all of them, each with its line."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A JSONL file of trainer rows.")],
    format: Annotated[str, typer.Option("--format", help="The rows' layout.")] = "prime-sft",
    require_tool_calls: Annotated[
        bool, typer.Option("--require-tool-calls", help="Fail where a row calls no tool, or there is no row.")
    ] = False,
    expected_rows: Annotated[int | None, typer.Option("--expected-rows", help="Fail on another number.")] = None,
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
    if faults:
        raise typer.Exit(1)
    answer = {"format": format, "ok": True, "rows": check.rows, "rows_with_tool_calls": check.rows_with_calls}
    print(json.dumps(answer, sort_keys=True))
