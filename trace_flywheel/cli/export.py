"""`flywheel export`: a dataset version in a trainer's layout."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal

import typer

from trace_flywheel.cli.options import Config, Home, settings_of, tell_refused

FAULTS_SHOWN = 5


def export(
    dataset: Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="Without a version: the newest.")],
    format: Annotated[str, typer.Option("--format", help="The layout, as `flywheel convert` names it.")],
    out: Annotated[Path, typer.Option("--out", help="A new folder.")],
    split: Annotated[Literal["train", "eval", "held_out"], typer.Option("--split")] = "train",
    home: Home = None,
    config: Config = None,
) -> None:
    from trace_flywheel.flow.export import export as written
    from trace_flywheel.flow.policy import policy_of
    from trace_flywheel.flow.standing import asked_version
    from trace_flywheel.lake.lock import writing
    from trace_flywheel.redaction.redact import redactor
    from trace_flywheel.trainers.registry import layouts

    if format not in layouts():
        raise typer.BadParameter(f"{format!r} is none of {', '.join(layouts())}", param_hint="--format")
    settings = settings_of(home, config)
    # Below the home no erasure may pass by while rows are on their way to a new file.
    inside = settings.home.resolve() in out.resolve().parents
    with writing(settings.home, shared=True) if inside else nullcontext():
        version = asked_version(settings.home, dataset)
        tell_refused(settings.home, version.name)
        made = written(version, format, out, redactor(policy_of(settings)), split)
    for row_id, fault in sorted(made.refused.items())[:FAULTS_SHOWN]:
        print(f"left out {row_id}: {fault}", file=sys.stderr)
    if len(made.refused) > FAULTS_SHOWN:
        print(f"left out {len(made.refused) - FAULTS_SHOWN} more", file=sys.stderr)
    print(f"{made.rows} rows of {version.name}@{version.version} as {format}: {made.path}")
