"""`flywheel purge`: erase rollouts, by trace id or by a value that must not exist any more."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from trace_flywheel.cli.difference import tell
from trace_flywheel.cli.options import Config, Home, settings_of


def purge(
    reason: Annotated[str, typer.Option("--reason", help="Why; it stays in the tombstone, so name nobody.")],
    trace: Annotated[str | None, typer.Option("--trace", help="The rollouts with this trace id.")] = None,
    run: Annotated[str | None, typer.Option("--run", help="Of --trace: only in this run.")] = None,
    value_from: Annotated[
        Path | None, typer.Option("--value-from", help="The rollouts whose text holds what this file holds.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the rows that would change, and stop.")] = False,
    home: Home = None,
    config: Config = None,
) -> None:
    if (trace is None) == (value_from is None) or (run is not None and trace is None):
        raise typer.BadParameter("give --trace (with --run where it stands in several) or --value-from")
    from trace_flywheel.flow.erasable import find_trace, find_value, runs_named, value_of, versions_with
    from trace_flywheel.flow.home import lake_of, remote_of, shared
    from trace_flywheel.flow.policy import policy_of
    from trace_flywheel.flow.purge import purge as erase
    from trace_flywheel.flow.watch import side_inputs_now
    from trace_flywheel.flow.withdraw import difference
    from trace_flywheel.lake.lock import writing
    from trace_flywheel.lake.purged import unfinished
    from trace_flywheel.lake.withdrawn import in_force
    from trace_flywheel.records.errors import FlywheelError
    from trace_flywheel.records.grading import Withdrawal
    from trace_flywheel.redaction.redact import redactor

    settings = settings_of(home, config)
    reason = redactor(policy_of(settings)).mask(reason)
    with writing(settings.home), shared(settings):
        if (remote := remote_of(settings)) is not None:
            remote.fetch_versions()
        lake, versions, value = lake_of(settings), tuple[Path, ...](), None
        if trace is not None:
            addresses = find_trace(lake, trace, run)
        else:
            value = value_of(value_from or Path())
            addresses, versions = find_value(lake, value), versions_with(lake, value)
        inputs = side_inputs_now(settings)
        if addresses or versions:
            print(f"{len(addresses)} rollouts to erase" + (f", in {len(versions)} versions" if versions else ""))
            gone = [Withdrawal(reason, run=run_id, trace=trace_id) for run_id, trace_id in addresses]
            tell(difference(lake, settings, inputs, (*in_force(lake), *gone)))
        known = bool(addresses) or value is not None or unfinished(lake.root)
        if dry_run and known:
            return
        if known and (settings.home / "dagster").is_dir():
            from trace_flywheel.orchestration.forget import forget_history, forget_previews

            if value is not None and runs_named(lake, value):
                forget_history(settings.home)
            else:
                forget_previews(settings.home)
        done = erase(lake, settings, inputs, addresses, reason, versions, value)
    print(f"{done.rollouts} rollouts erased; {len(done.versions)} versions that knew them are gone")
    for made in done.made:
        print(f"{made.name}: {made.rows} rows in {made.path}", file=sys.stderr)
    for export in done.exports:
        print(f"{export}: held it and is gone", file=sys.stderr)
    print("the source folders are not touched; what was erased is read again from no folder", file=sys.stderr)
    if done.left:
        raise FlywheelError(
            f"the value stands still in {', '.join(map(str, done.left))}: these are not the lake's to erase; mend what "
            "they are made from, or remove them, and purge again"
        )
