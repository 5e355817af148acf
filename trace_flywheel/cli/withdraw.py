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
    from trace_flywheel.flow.withdraw import covers_some, difference, excise
    from trace_flywheel.lake.lock import writing
    from trace_flywheel.lake.sidecar import LakeError
    from trace_flywheel.lake.withdrawn import in_force, note
    from trace_flywheel.records.grading import Withdrawal
    from trace_flywheel.redaction.redact import redactor

    settings = settings_of(home, config)
    reason = redactor(policy_of(settings)).mask(reason)
    name, _, version = (grader or "").partition("@")
    entry = Withdrawal(reason, mode, name or None, version or None, run, trace)
    lake = lake_of(settings)

    def told() -> bool:
        """Tell what would change; whether it is withdrawn already."""
        before = in_force(lake)
        known = entry.what in {one.what for one in before}
        if undo and not known:
            raise LakeError(f"{entry.what} is not withdrawn; {lake.root / 'withdrawn.jsonl'} says what is")
        after = tuple(one for one in before if one.what != entry.what) if undo else (*before, entry)
        inputs = side_inputs_now(settings)
        found = list(difference(lake, settings, inputs, after, mode == "excise"))
        if as_json:
            print(json.dumps({"what": entry.what, "dry_run": dry_run, "datasets": msgspec.to_builtins(found)}))
        else:
            tell(found)
        if not undo and not covers_some(lake, settings, inputs, entry):
            print(f"no rollout that was read is of {entry.what}; it counts for what is read later", file=sys.stderr)
        return known

    if dry_run:
        bring_up_to_date(settings)
        told()
        return
    with writing(settings.home), shared(settings):
        known = told()
        if known and not undo:
            print(f"{entry.what} is withdrawn already, for the reason given first", file=sys.stderr)
        if mode == "excise":
            for made in excise(lake, settings, side_inputs_now(settings), entry):
                print(f"{made.name}: {made.rows} rows in {made.path}", file=sys.stderr)
        elif undo or not known:
            note(lake, entry, undo)
    if mode == "recompute":
        print(f"noted; `{program()} refresh` makes the datasets {'with' if undo else 'without'} it", file=sys.stderr)
