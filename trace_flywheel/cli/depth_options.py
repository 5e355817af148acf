"""Options that the commands of `flywheel depth` share, and what they stand for."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from trace_flywheel.records.shortage import Shortage
    from trace_flywheel.redaction.redact import Redactor

Rows = Annotated[Path, typer.Argument(metavar="FILE", help="JSONL rows with messages, or with a prompt.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The file to write; replaced only when it is complete.")]
Model = Annotated[
    Path | None,
    typer.Option("--model", help="A folder of `depth train` or a .tgfr file; else the seed set's classifier."),
]
Field = Annotated[
    str, typer.Option("--field", help="Where the prompt is: messages (then prompt, text), or a top-level text.")
]
TurnOf = Annotated[
    Literal["last", "first"], typer.Option("--turn", help="Of messages: the user turn before the target, or the first.")
]

Redact = Annotated[bool, typer.Option("--redact/--no-redact", help="Replace secrets and personal data.")]


def redactor_of(wanted: bool) -> "Redactor | None":
    """The redactor that the settings ask for, as `convert` has it."""
    if not wanted:
        return None
    from trace_flywheel.flow.policy import policy_of
    from trace_flywheel.redaction.redact import redactor
    from trace_flywheel.settings import load_settings

    return redactor(policy_of(load_settings()))


def shortage_of_option(text: str, times: int | None) -> "tuple[Shortage, int]":
    from trace_flywheel.records.shortage import shortage_of

    try:
        found, most = shortage_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--shortage") from None
    if times is None:
        return found, most
    if found not in ("shrink", "upsample"):
        raise typer.BadParameter(f"not beside --shortage {text}", param_hint="--upsample")
    return "upsample", times


def target_of(text: str, by_depth: bool) -> dict[str, float]:
    """Shares by class; a faulty part is refused, never left out in silence."""
    from trace_flywheel.curation.depth import short_label

    target: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        try:
            name = short_label("comparison" if name.lower() == "compare" else name) if by_depth else name
            share = float(number)
        except ValueError as error:
            raise typer.BadParameter(f"{part.strip()!r}: {error}", param_hint="--target-mix") from None
        if not 0 <= share < float("inf") or name in target:
            raise typer.BadParameter(f"{part.strip()!r}: twice, or no share", param_hint="--target-mix")
        target[name] = share
    if sum(target.values()) <= 0:
        raise typer.BadParameter("at least one share must be above zero", param_hint="--target-mix")
    return target
