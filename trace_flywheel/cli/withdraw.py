"""`flywheel withdraw`: take a grader's, a run's or a trace's rollouts out of the datasets, or let them in again."""

import json
import sys
from typing import Annotated, Literal

import msgspec
import typer

from trace_flywheel.cli.difference import tell
from trace_flywheel.cli.options import AsJson, Config, Home, program, settings_of


def withdraw(
    reason: Annotated[str, typer.Option("--reason", help="Why; it stands in every fate that this decides.")],
    grader: Annotated[str | None, typer.Option("--grader", metavar="NAME[@VERSION]")] = None,
    run: Annotated[str | None, typer.Option("--run", help="A run id, or the last part of it.")] = None,
    trace: Annotated[str | None, typer.Option("--trace", help="A trace id, in whatever run.")] = None,
    mode: Annotated[Literal["recompute", "excise"], typer.Option("--mode")] = "recompute",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the rows that would change, and stop.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="End such a withdrawal.")] = False,
    as_json: AsJson = False,
    home: Home = None,
    config: Config = None,
) -> None:
    if sum(value is not None for value in (grader, run, trace)) != 1:
        raise typer.BadParameter("give one of --grader, --run and --trace")
    if undo and mode == "excise":
        raise typer.BadParameter("--undo lets rows in again at the next refresh; it takes no --mode excise")
    from trace_flywheel.flow.home import bring_up_to_date, lake_of, shared
    from trace_flywheel.flow.policy import policy_of
    from trace_flywheel.flow.watch import side_inputs_now
    from trace_flywheel.flow.withdraw import difference, excised
    from trace_flywheel.lake.lock import writing
    from trace_flywheel.lake.sidecar import LakeError
    from trace_flywheel.lake.withdrawn import in_force, note
    from trace_flywheel.records.grading import Withdrawal
    from trace_flywheel.redaction.redact import redactor

    settings = settings_of(home, config)
    reason = redactor(policy_of(settings)).mask(reason)
    name, _, version = (grader or "").partition("@")
    entry = Withdrawal(reason, mode, name or None, version or None, run, trace)
    bring_up_to_date(settings)
    lake, inputs = lake_of(settings), side_inputs_now(settings)
    before = in_force(lake)
    if undo and entry.what not in {one.what for one in before}:
        raise LakeError(f"{entry.what} is not withdrawn; {lake.root / 'withdrawn.jsonl'} says what is")
    after = tuple(one for one in before if one.what != entry.what) if undo else (*before, entry)
    found = list(difference(lake, settings, inputs, after, entry if mode == "excise" else None))
    if as_json:
        print(json.dumps({"what": entry.what, "dry_run": dry_run, "datasets": msgspec.to_builtins(found)}))
    else:
        tell(found)
    if dry_run:
        return
    with writing(settings.home), shared(settings):
        note(lake, entry, undo)
        remade = list(excised(lake, settings, inputs, entry)) if mode == "excise" else []
    if mode == "excise":
        for made in remade:
            print(f"{made.name}: {made.rows} rows in {made.path}", file=sys.stderr)
    else:
        print(f"noted; `{program()} refresh` makes the datasets {'with' if undo else 'without'} it", file=sys.stderr)
